"""PyTorch's process groups as a transport: what the suite for all transports does not ask."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from aitne_train.failure_aware_rendezvous_store import RunStore
from aitne_train.launcher.own_addresses import LOCAL
from aitne_train.transport import torch_pg
from aitne_train.transport._torch_store_adapter import TorchStore
from aitne_train.transport.base import Reduction, TransportError
from aitne_train.transport.torch_pg import TorchProcessGroup
from tests.support import realtime
from tests.support.ranks import Pool, Rank
from tests.support.waiting import eventually

pytestmark = realtime.RANKS


def several(me: Rank) -> list[list[float]]:
    pg = TorchProcessGroup.connect(me.group(), "cpu")
    total = torch.full((3,), me.rank + 1.0)
    pg.allreduce(total, Reduction.SUM)
    counts = list(range(me.size))
    gathered = torch.empty(sum(counts), dtype=torch.int16)
    pg.allgather(gathered, torch.full((me.rank,), me.rank, dtype=torch.int16), counts)
    part = torch.empty(counts[me.rank])
    pg.reducescatter(part, torch.arange(sum(counts)) * 1.0, counts, Reduction.SUM)
    small = torch.tensor([300 * (me.rank + 1)], dtype=torch.int16)
    pg.allreduce(small, Reduction.SUM)
    truth = torch.tensor([me.rank == 0, True, False])
    pg.allreduce(truth, Reduction.PRODUCT)
    pg.barrier()
    pg.close()
    return [each.tolist() for each in (total, gathered, part, small, truth)]


def abort(me: Rank) -> str:
    """Abort the last rank while all ranks wait for each other."""
    pg = TorchProcessGroup.connect(me.group(), "cpu")
    pg.barrier()
    each = [1] * me.size
    try:
        if me.rank == me.size - 1:
            threading.Timer(0.3, pg.abort, ["enough"]).start()
            pg.broadcast(torch.ones(4), 0)
        else:
            pg.alltoall(torch.ones(me.size), torch.ones(me.size), each, each)
    except TransportError as error:
        return str(error)
    return "it went on"


class InterruptedWait:
    """Operation of PyTorch in whose first wait an interrupt arrives."""

    def __init__(self) -> None:
        self._interrupted = False

    def is_completed(self) -> bool:
        return True

    def wait(self, _timeout: object = None) -> None:
        if not self._interrupted:
            self._interrupted = True
            raise KeyboardInterrupt


def close_in_progress(me: Rank) -> bool:
    """Close rank 0 while PyTorch carries out an operation that an interrupt has left."""
    transport = TorchProcessGroup.connect(me.group(), "cpu")
    transport.barrier()
    if me.rank == 0:
        flat = torch.ones(4)
        with suppress(KeyboardInterrupt):
            transport._run_collective(flat, lambda pg: [InterruptedWait(), pg.allreduce([flat])])
        transport.close()
        del transport
        gc.collect()
        me.store.set(f"{me.call}-closed", b"1")
    me.store.get(f"{me.call}-closed", 20.0)
    return True


def abort_beside_a_closed_peer(me: Rank) -> str:
    """Abort rank 1, which waits for rank 0, after rank 2 has closed its connections."""
    pg = TorchProcessGroup.connect(me.group(), "cpu")
    pg.barrier()
    if me.rank == 2:
        pg.abort("left first")
        me.store.set(f"{me.call}-closed", b"1")
    if me.rank != 1:
        me.store.get(f"{me.call}-aborted", 50)
        return ""
    me.store.get(f"{me.call}-closed", 30)
    threading.Timer(0.3, pg.abort, ["enough"]).start()
    try:
        pg.broadcast(torch.ones(4), 0)
    except TransportError as error:
        return str(error)
    finally:
        me.store.set(f"{me.call}-aborted", b"1")
    return "it went on"


def late(me: Rank) -> float:
    pg = TorchProcessGroup.connect(me.group(timeout_s=1), "cpu")
    if me.rank == 0:
        time.sleep(2)
    flat = torch.ones(2)
    pg.allreduce(flat, Reduction.SUM)
    return flat[0].item()


def absent(me: Rank) -> str:
    group = me.group(timeout_s=1)
    if me.rank == 1:
        return ""
    try:
        TorchProcessGroup.connect(group, "cpu")
    except TransportError as error:
        return str(error)
    return "it connected"


class StoppingStore:
    """Store of a rank that begins to connect, and then waits until the others have ended."""

    def __init__(self, me: Rank) -> None:
        self._me = me

    def set(self, key: str, value: bytes) -> None:
        self._me.store.set(key, value)

    def get(self, _key: str, _timeout_s: float) -> bytes:
        self._me.store.set(f"{self._me.call}-left", b"1")
        self._me.store.get(f"{self._me.call}-ended", 90)
        raise TransportError("this rank has left")


def left_while_connecting(me: Rank) -> str:
    """Connect to a rank that is left behind while gloo connects; return the error."""

    def check() -> None:
        with suppress(TimeoutError):
            me.store.get(f"{me.call}-left", 0.0)
            raise TransportError("rank 1 has left")

    store = RunStore(me.store, check) if me.rank == 0 else StoppingStore(me)
    try:
        TorchProcessGroup.connect(replace(me.group(), store=store), "cpu")
    except TransportError as error:
        return str(error)
    finally:
        if me.rank == 0:
            me.store.set(f"{me.call}-ended", b"1")
    return "it connected"


def _threads() -> int:
    """Return how many threads this process has, with the one that gloo never ends."""
    dist.ProcessGroupGloo.create_device(hostname=LOCAL)
    return len(os.listdir("/proc/self/task"))


def left_in_the_first_barrier(me: Rank) -> str:
    """Connect to a rank that then does not take part in the first barrier; return the error."""
    group = me.group()
    if me.rank == 1:
        pg = torch_pg._connect_gloo(TorchStore(group), group, LOCAL)
        me.store.set(f"{me.call}-left", b"1")
        me.store.get(f"{me.call}-ended", 90)
        return str(pg.size())

    def check() -> None:
        with suppress(TimeoutError):
            me.store.get(f"{me.call}-left", 0.0)
            raise TransportError("rank 1 has left")

    before = _threads()
    try:
        TorchProcessGroup.connect(replace(group, store=RunStore(me.store, check)), "cpu")
    except TransportError as error:
        message = str(error)  # the error itself holds frames, and they may hold the group
    else:
        message = "it connected"
    try:
        eventually("the group is gone", lambda: _threads() <= before, 20)
    finally:
        me.store.set(f"{me.call}-ended", b"1")
    return message


class InterruptingStore:
    """Store whose first use interrupts the main thread, and then waits until this is over."""

    def __init__(self, me: Rank) -> None:
        self._me = me
        self._interrupted = False

    def set(self, key: str, value: bytes) -> None:
        self._interrupt()
        self._me.store.set(key, value)

    def get(self, key: str, timeout_s: float) -> bytes:
        if not key.endswith("/check"):
            self._interrupt()
        return self._me.store.get(key, timeout_s)

    def _interrupt(self) -> None:
        if not self._interrupted:
            self._interrupted = True
            os.kill(os.getpid(), signal.SIGUSR1)
            self._me.store.get(f"{self._me.call}-interrupted", 60)


def interrupted_while_connecting(me: Rank) -> str:
    """Interrupt rank 0, whose thread still connects afterwards."""
    if me.rank == 1:
        try:
            TorchProcessGroup.connect(me.group(), "cpu")
        except TransportError as error:
            return str(error)
        return "it connected"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before_signal = signal.signal(signal.SIGUSR1, interrupt)
    before = _threads()
    try:
        TorchProcessGroup.connect(replace(me.group(), store=InterruptingStore(me)), "cpu")
    except KeyboardInterrupt:
        me.store.set(f"{me.call}-interrupted", b"1")
    finally:
        signal.signal(signal.SIGUSR1, before_signal)
    eventually("the group is gone", lambda: _threads() <= before, 20)
    return "it was interrupted"


def test_a_group_is_closed_whose_first_barrier_fails(pool: Pool) -> None:
    assert pool.run(left_in_the_first_barrier, 2, timeout_s=100) == ["rank 1 has left", "2"]


def test_a_group_is_closed_that_connects_after_an_interrupt(pool: Pool) -> None:
    first, second = pool.run(interrupted_while_connecting, 2, timeout_s=100)
    assert first == "it was interrupted"
    assert second.startswith("torch_pg: ")


def test_a_rank_is_released_that_connects_to_one_which_has_left(pool: Pool) -> None:
    assert pool.run(left_while_connecting, 2, timeout_s=100)[0] == "rank 1 has left"


def test_uneven_parts_and_the_types_that_gloo_lacks(pool: Pool) -> None:
    found = pool.run(several, 3)
    for rank, (total, gathered, part, small, truth) in enumerate(found):
        assert total == [6.0] * 3
        assert gathered == [1, 2, 2]
        assert part == [[], [0.0], [3.0, 6.0]][rank]
        assert small == [1800]
        assert truth == [False, True, False]


def test_members_on_several_nodes_meet_by_an_address_that_both_reach(pool: Pool) -> None:
    chosen = {"AITNE_NETWORK_INTERFACE": "lo"}
    for environ in ({}, chosen):
        assert pool.run(several, 3, nodes=(0, 1, 1), environ=environ)[0][0] == [6.0] * 3


def test_an_abort_ends_the_waits_of_all_members(pool: Pool) -> None:
    *others, message = pool.run(abort, 3)
    assert message == "enough"
    assert all("Connection closed by peer" in words for words in others)


def test_an_abort_ends_a_wait_beside_a_peer_that_has_closed(pool: Pool) -> None:
    assert pool.run(abort_beside_a_closed_peer, 3)[1] == "enough"


def test_close_ends_an_operation_that_an_interrupt_has_left(pool: Pool) -> None:
    assert pool.run(close_in_progress, 2) == [True, True]


def test_time_to_turn_up_does_not_limit_time_between_collectives(pool: Pool) -> None:
    assert pool.run(late, 2) == [2.0, 2.0]


@pytest.mark.parametrize("nodes", [(0, 0), (0, 1)])
def test_a_member_that_does_not_turn_up_is_missed(pool: Pool, nodes: tuple[int, ...]) -> None:
    message = pool.run(absent, 2, nodes=nodes)[0]
    assert "the ranks 0, 1 did not all connect within 1 s" in message
