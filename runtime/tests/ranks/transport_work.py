"""Functions that ranks run in the tests of transports, and the expected results from one process."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from aitne_train.transport.base import Reduction, Transport, TransportError
from aitne_train.transport_choice import TRANSPORTS
from tests.support.ranks import Rank

REDUCED = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
)
MOVED = (*REDUCED, torch.complex64, torch.complex128)


def class_of(name: str) -> Any:
    """Return the class of a transport."""
    return TRANSPORTS.get(name)


def connected(me: Rank, name: str, timeout_s: float = 60.0) -> Transport:
    """Return this rank's transport to a new group of all ranks."""
    torch.set_num_threads(1)
    found: Transport = class_of(name).connect(me.group(timeout_s=timeout_s), "cpu")
    assert (found.rank, found.size) == (me.rank, me.size)
    return found


def values(rank: int, count: int, dtype: torch.dtype, salt: int = 0) -> torch.Tensor:
    """Return small numbers that differ between ranks, so that sums and products are exact."""
    number = torch.arange(count, dtype=torch.int64) * 7 + rank * 13 + salt
    if dtype == torch.bool:
        return number % 3 == 0
    small = number % 4 + (0 if dtype == torch.uint8 else -1)
    return small.to(dtype)


def reduced(rows: Sequence[torch.Tensor], op: Reduction) -> torch.Tensor:
    """Return the expected result of a reduction on every rank."""
    dtype = rows[0].dtype
    stacked = torch.stack([row.to(torch.float64) for row in rows])
    if op == Reduction.SUM:
        result = stacked.sum(0)
    elif op == Reduction.PRODUCT:
        result = stacked.prod(0)
    else:
        result = stacked.amin(0) if op == Reduction.MIN else stacked.amax(0)
    return result != 0 if dtype == torch.bool else result.to(dtype)


def same(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Assert equality bit for bit; the values make the order of additions irrelevant."""
    assert found.dtype == expected.dtype, what
    assert torch.equal(found, expected), f"{what}: {found[:8]} is not {expected[:8]}"


def all_reduce(me: Rank, name: str, counts: Sequence[int], dtypes: Sequence[torch.dtype]) -> None:
    transport = connected(me, name)
    for count in counts:
        for dtype in dtypes:
            for op in Reduction:
                if not transport.reduces(dtype, op):
                    continue
                flat = values(me.rank, count, dtype)
                transport.allreduce(flat, op)
                rows = [values(rank, count, dtype) for rank in range(me.size)]
                same(flat, reduced(rows, op), f"{op.name} of {count} {dtype}")
    transport.close()


def what_it_reduces(me: Rank, name: str) -> list[torch.dtype]:
    transport = connected(me, name)
    taken = [each for each in REDUCED if all(transport.reduces(each, op) for op in Reduction)]
    transport.close()
    return taken


def reduce_scatter(
    me: Rank, name: str, counts: Sequence[int], dtypes: Sequence[torch.dtype]
) -> None:
    transport = connected(me, name)
    total, begin = sum(counts), sum(counts[: me.rank])
    for dtype in dtypes:
        for op in Reduction:
            if not transport.reduces(dtype, op):
                continue
            out = torch.empty(counts[me.rank], dtype=dtype)
            transport.reducescatter(out, values(me.rank, total, dtype), counts, op)
            whole = reduced([values(rank, total, dtype) for rank in range(me.size)], op)
            mine = whole[begin : begin + counts[me.rank]]
            same(out, mine, f"{op.name} of {dtype} in parts of {counts}")
    transport.close()


def all_gather(me: Rank, name: str, counts: Sequence[int], dtypes: Sequence[torch.dtype]) -> None:
    transport = connected(me, name)
    for dtype in dtypes:
        out = torch.empty(sum(counts), dtype=dtype)
        transport.allgather(out, values(me.rank, counts[me.rank], dtype), counts)
        rows = [values(rank, count, dtype) for rank, count in enumerate(counts)]
        same(out, torch.cat(rows), f"{counts} of {dtype}")
    transport.close()


def broadcast(me: Rank, name: str, counts: Sequence[int], dtypes: Sequence[torch.dtype]) -> None:
    transport = connected(me, name)
    for count in counts:
        for dtype in dtypes:
            for root in range(me.size):
                flat = values(me.rank, count, dtype)
                transport.broadcast(flat, root)
                same(flat, values(root, count, dtype), f"{count} of {dtype} from {root}")
    transport.close()


def all_to_all(me: Rank, name: str, unit: int, dtypes: Sequence[torch.dtype]) -> None:
    """Exchange parts of different lengths, some of them empty: ``unit * ((a + 2 * b) % 3)`` from a to b."""
    transport = connected(me, name)

    def count(sender: int, receiver: int) -> int:
        return unit * ((sender + 2 * receiver) % 3)

    everyone = range(me.size)
    send = [count(me.rank, rank) for rank in everyone]
    receive = [count(rank, me.rank) for rank in everyone]
    for dtype in dtypes:
        out = torch.empty(sum(receive), dtype=dtype)
        flat = torch.cat([values(me.rank, each, dtype, rank) for rank, each in enumerate(send)])
        transport.alltoall(out, flat, send, receive)
        parts = [values(rank, count(rank, me.rank), dtype, me.rank) for rank in everyone]
        same(out, torch.cat(parts), f"{receive} of {dtype}")
    transport.close()


def same_bits_everywhere(me: Rank, name: str, count: int) -> dict[str, bytes]:
    """Return sums whose bits depend on the order of additions."""
    transport = connected(me, name)
    found = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        if transport.reduces(dtype, Reduction.SUM):
            torch.manual_seed(me.rank)
            flat = torch.randn(count).to(dtype)
            transport.allreduce(flat, Reduction.SUM)
            found[str(dtype)] = flat.view(torch.uint8).numpy().tobytes()
    transport.close()
    return found


def mixed(me: Rank, name: str, times: int) -> None:
    """Run all collectives in turn without a pause, with ranks that delay at different places."""
    transport = connected(me, name)
    for number in range(times):
        if number % me.size == me.rank and number % 5 == 0:
            time.sleep(0.002)
        count = (number * 977) % 70_000
        flat = values(me.rank, count, torch.int64, number)
        transport.allreduce(flat, Reduction.SUM)
        rows = [values(rank, count, torch.int64, number) for rank in range(me.size)]
        same(flat, reduced(rows, Reduction.SUM), f"sum {number}")
        root = number % me.size
        told = values(me.rank, 3 + number, torch.uint8)
        transport.broadcast(told, root)
        same(told, values(root, 3 + number, torch.uint8), f"broadcast {number}")
        transport.barrier()
        counts = [rank + number % 3 for rank in range(me.size)]
        out = torch.empty(sum(counts), dtype=torch.int16)
        transport.allgather(out, values(me.rank, counts[me.rank], torch.int16), counts)
        rows = [values(rank, each, torch.int16) for rank, each in enumerate(counts)]
        same(out, torch.cat(rows), f"allgather {number}")
    transport.close()


def barrier(me: Rank, name: str, folder: str) -> list[list[int]]:
    """Return, for each of five barriers, the ranks that this rank saw before it returned."""
    transport = connected(me, name)
    seen = []
    for number in range(5):
        open(f"{folder}/{number}-{me.rank}", "x").close()
        transport.barrier()
        seen.append([r for r in range(me.size) if os.path.exists(f"{folder}/{number}-{r}")])
    transport.close()
    return seen


def two_at_once(me: Rank, name: str) -> None:
    """Use two groups in two threads at the same time."""
    first, second = connected(me, name), connected(me, name)
    flat = values(me.rank, 300_000, torch.float32)
    worker = threading.Thread(
        target=lambda: [first.allreduce(flat, Reduction.MAX) for _ in range(5)]
    )
    worker.start()
    for number in range(20):
        other = values(me.rank, 1_000, torch.int32, number)
        second.allreduce(other, Reduction.SUM)
        rows = [values(rank, 1_000, torch.int32, number) for rank in range(me.size)]
        same(other, reduced(rows, Reduction.SUM), "the second group's")
    worker.join()
    rows = [values(rank, 300_000, torch.float32) for rank in range(me.size)]
    same(flat, reduced(rows, Reduction.MAX), "the first group's")
    first.close()
    second.close()


def aborted(me: Rank, name: str) -> tuple[str, float]:
    """Let rank 0 wait for an absent rank until another thread aborts the transport."""
    transport = connected(me, name)
    transport.barrier()
    if me.rank:
        # Aborting is a matter of each rank; the others are told by the engine.
        me.store.get(f"{me.call}-over", 30)
        transport.close()
        return "", 0.0
    threading.Timer(0.3, transport.abort, ["somebody wanted it so"]).start()
    began = time.monotonic()
    try:
        transport.barrier()
    except TransportError as error:
        took = time.monotonic() - began
        again = _refusal(transport)
        assert "somebody wanted it so" in again, again
        me.store.set(f"{me.call}-over", b"1")
        transport.close()
        return str(error), took
    raise AssertionError("a barrier that one rank never came to was passed")


def left_by_killed(me: Rank, name: str, victim: int, count: int) -> tuple[list[str], float, bool]:
    """Kill one rank while the others wait; return their errors and the delay."""
    transport = connected(me, name)
    for _ in range(3):
        transport.allreduce(torch.ones(count), Reduction.SUM)
    if me.rank == victim:
        me.store.set(f"{me.call}-killed", b"1")
        os.kill(os.getpid(), signal.SIGKILL)
    me.store.get(f"{me.call}-killed", 30)
    began = time.monotonic()
    told = [_refusal(transport, count), _refusal(transport)]
    took = time.monotonic() - began
    transport.close()
    return told, took, "aitne-shm" in Path("/proc/self/maps").read_text()


def _refusal(transport: Transport, count: int = 10) -> str:
    try:
        transport.allreduce(torch.ones(count), Reduction.SUM)
    except TransportError as error:
        return str(error)
    raise AssertionError("a collective without all of its ranks was done")


def refused(me: Rank, name: str, nodes: Sequence[int], device: str) -> str | None:
    found: str | None = class_of(name).refusal(nodes, device)
    return found


def a_little_of_all(me: Rank, name: str) -> None:
    """Run each collective in one call, because the start of many ranks takes the time."""
    dtypes = (torch.float32, torch.int64)
    everyone = list(range(me.size))
    all_reduce(me, name, (0, 5, 4099, 100_003), dtypes)
    reduce_scatter(me, name, everyone, dtypes)
    all_gather(me, name, everyone, dtypes)
    broadcast(me, name, (1, 100_003), dtypes[:1])
    all_to_all(me, name, 1001, dtypes)
