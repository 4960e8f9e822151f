"""Waits that are no deadlock, and waits that last too long."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from runtime.tests.ranks import engine_work as work
from runtime.tests.ranks.optimizer_work import loss_of, network, share, started, wrapped

import aitne_train as hvd
from aitne_train.collective_engine import BLOCKED_S, CollectiveEngine
from tests.support import realtime
from tests.support.ranks import Pool, Rank

pytestmark = realtime.RANKS


def late_thread(me: Rank) -> list[float]:
    """Let each main thread wait for the other rank's second thread, whose first collective is late."""
    mine, theirs = ("a", "b") if me.rank == 0 else ("b", "a")
    found: list[float] = []

    def come_late() -> None:
        me.store.get(f"{me.call}-late", 30)
        found.append(hvd.allreduce(torch.ones(1), name=theirs, op=hvd.Sum).item())

    with work.begun() as current:
        threads = [threading.Thread(target=come_late, daemon=True)]
        if me.rank == 0:
            threads.append(
                threading.Thread(target=say_when_old, args=(me, current.engine), daemon=True)
            )
        for each in threads:
            each.start()
        found.append(hvd.allreduce(torch.ones(1), name=mine, op=hvd.Sum).item())
        for each in threads:
            each.join()
    return found


def say_when_old(me: Rank, engine: CollectiveEngine) -> None:
    """Announce that a wait is old enough to have been reported if it were in vain."""
    until = time.monotonic() + 3 * BLOCKED_S
    while time.monotonic() < until and not any(
        age_s > 2 * BLOCKED_S for _, _, age_s, _ in engine.list_pending()
    ):
        time.sleep(0.05)
    me.store.set(f"{me.call}-late", b"1")


def hung_step(me: Rank) -> str:
    """Let rank 1 make one step less and no request before the run has failed."""
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model)
        for step in range(3):
            if rank == 1 and step == 2:
                break
            optimizer.zero_grad()
            loss_of(model, share(step, rank, size)).backward()
            said = work.failure(optimizer.step)
        if rank == 1:
            me.store.get(f"{me.call}-said", 30)
            said = work.failure(lambda: hvd.allreduce(torch.ones(1)))
        else:
            me.store.set(f"{me.call}-said", b"1")
    return said


@pytest.mark.parametrize("transport", ["shm", "torch_pg"])
def test_a_hung_step_ends_when_asked_to(pool: Pool, transport: str) -> None:
    environ = {
        "AITNE_TRANSPORT": transport,
        "AITNE_GUARD_LAG_S": "0",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2",
    }
    for said in pool.run(hung_step, 2, environ=environ):
        assert said.startswith("HorovodInternalError: Stalled for too long: rank 0 has waited")


def test_a_thread_that_asks_late_is_no_deadlock(pool: Pool) -> None:
    environ = {"AITNE_TRANSPORT": "shm"}
    assert pool.run(late_thread, 2, environ=environ) == [[2.0, 2.0]] * 2
