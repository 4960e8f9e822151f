"""Health of the scheduler: whether it answers and accepts jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aitne.adapters.store.sql import SqlStore
from aitne.core.models.health import HealthState
from aitne.core.models.node import Cluster, SchedulerStatus
from aitne.core.settings import Settings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.platform.health_check_result import HealthCheckResult
from aitne.services.platform.scheduler_health import check_scheduler

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FULL = "Slurm accepts no jobs at the moment: I/O error writing script/environment to file"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(f"sqlite:///{tmp_path / 'aitne.db'}", clock=lambda: NOW)
    await store.start()
    yield store
    await store.close()


async def look(store: SqlStore, message: str | None = None) -> HealthCheckResult:
    """Check a scheduler that answers, and has the message."""
    lease = await store.take_lease("controller", "test", duration_s=60)
    assert lease is not None
    epoch = lease.epoch
    status = SchedulerStatus(responding=True, since=NOW, message=message)
    await store.save_scheduler(status, epoch=epoch)
    await store.save_cluster(Cluster(seen_at=NOW), epoch=epoch)
    cluster = ClusterService(store, None, Settings(), lambda: NOW)
    return await check_scheduler(cluster, "slurm", NOW)


async def test_a_scheduler_that_answers_and_accepts_jobs_is_well(store: SqlStore) -> None:
    assert (await look(store)).state is HealthState.OK


async def test_a_scheduler_that_accepts_no_jobs_is_degraded(store: SqlStore) -> None:
    found = await look(store, FULL)
    assert (found.state, FULL in found.says) == (HealthState.DEGRADED, True)
