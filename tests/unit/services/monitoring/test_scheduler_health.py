"""Health of the scheduler: whether it answers, accepts jobs and has kept its state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aitne.core.models.cluster import Cluster, SchedulerStatus
from aitne.core.models.health import HealthState
from aitne.core.platform.metric_names import SCHEDULER_STATE_LOST
from aitne.core.settings import Settings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.monitoring.health_check_result import HealthCheckResult
from aitne.services.monitoring.scheduler_health import STATE_LOST_NOTICE, check_scheduler
from aitne.store import Store

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FULL = "Slurm accepts no jobs at the moment: I/O error writing script/environment to file"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'aitne.db'}", clock=lambda: NOW)
    await store.start()
    yield store
    await store.close()


async def look(
    store: Store, message: str | None = None, lost_at: datetime | None = None
) -> HealthCheckResult:
    """Check a scheduler that answers, and has the message and the loss of its state."""
    lost = {} if lost_at is None else {SCHEDULER_STATE_LOST.name: {"": lost_at.timestamp()}}
    lease = await store.acquire_lease("controller", "test", duration_s=60, counters=lost)
    assert lease is not None
    epoch = lease.epoch
    status = SchedulerStatus(responding=True, since=NOW, message=message)
    await store.save_scheduler_status(status, epoch=epoch)
    await store.save_cluster(Cluster(seen_at=NOW), epoch=epoch)
    cluster = ClusterService(store, None, Settings(), lambda: NOW)
    return await check_scheduler(store, cluster, "slurm", NOW)


async def test_a_scheduler_that_answers_and_accepts_jobs_is_well(store: Store) -> None:
    assert (await look(store)).state is HealthState.OK


async def test_a_scheduler_that_accepts_no_jobs_is_degraded(store: Store) -> None:
    found = await look(store, FULL)
    assert (found.state, FULL in found.says) == (HealthState.DEGRADED, True)


async def test_a_scheduler_that_has_lost_its_state_is_degraded_for_a_day(store: Store) -> None:
    lost_at = NOW - timedelta(hours=1)
    found = await look(store, lost_at=lost_at)
    assert (found.state, found.since) == (HealthState.DEGRADED, lost_at)
    assert "lost its state when it restarted at 2026-01-02 02:04:05 UTC" in found.says
    old = await look(store, lost_at=NOW - STATE_LOST_NOTICE)
    assert old.state is HealthState.OK
