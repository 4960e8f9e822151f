"""The leader writes its counters with its lease, for the process that serves the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aitne.core.errors import SchedulerUnavailable
from aitne.core.platform.metric_names import (
    SCHEDULER_RPC,
    SCHEDULER_RPC_FAILURES,
    SCHEDULER_RPC_SECONDS,
)
from aitne.core.ports.scheduler import SchedulerJob
from aitne.services.controller.controller_counters import ControllerCounters, CountedScheduler
from aitne.services.controller.leader import LEASE, Leader
from tests.support.fakes import FakeScheduler


async def test_calls_are_counted_and_the_lease_carries_them(bench: Any) -> None:
    b = await bench()
    counts = ControllerCounters()
    scheduler = CountedScheduler(FakeScheduler(), counts)
    await scheduler.poll()
    await scheduler.poll()
    await scheduler.read_cluster()
    leader = Leader(b.store, "test", counts)
    await leader.acquire()
    lease = await b.store.find_lease(LEASE)
    assert lease is not None
    assert lease.counters[SCHEDULER_RPC.name] == {"poll": 2.0, "cluster": 1.0}
    assert lease.counters[SCHEDULER_RPC_SECONDS.name].keys() == {"poll", "cluster"}


async def test_failed_calls_of_the_scheduler_are_counted() -> None:
    class Silent(FakeScheduler):
        async def poll(self) -> Sequence[SchedulerJob]:
            raise SchedulerUnavailable("slurmctld does not answer.")

    counts = ControllerCounters()
    with pytest.raises(SchedulerUnavailable):
        await CountedScheduler(Silent(), counts).poll()
    assert counts.snapshot()[SCHEDULER_RPC_FAILURES.name] == {"poll": 1.0}


async def test_how_long_a_lost_submission_may_still_turn_up_is_learnt_late() -> None:
    inner = FakeScheduler()
    scheduler = CountedScheduler(inner, ControllerCounters())
    inner.settle_s = 205.0
    assert scheduler.settle_s == 205.0
