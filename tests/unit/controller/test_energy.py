"""Energy of ended jobs, from accounting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aitne.adapters.accounting.none import NoAccounting
from aitne.core.jobs.states import JobState
from aitne.core.ports.accounting import JobEnergy
from aitne.services.controller.job_energy_recording import EnergyWatch
from tests.support.accounting import MemoryAccounting
from tests.support.jobs import make_job
from tests.unit.controller.conftest import Bench


async def test_energy_that_accounting_has_later_is_stored_too(bench: Any) -> None:
    b: Bench = await bench()
    accounting = MemoryAccounting()
    watch = EnergyWatch(b.store, accounting, b.leader, b.clock)  # type: ignore[arg-type]
    ended_at = b.clock.now - timedelta(hours=3)
    values = {"state": JobState.COMPLETED, "scheduler_id": "7", "ended_at": ended_at}
    job = (await b.store.create_job(make_job().model_copy(update=values))).job

    accounting.consumed = [JobEnergy(scheduler_id="7", ended_at=ended_at, energy_j=500)]
    accounting.down = True
    await watch.store_energy(accounting)  # type: ignore[arg-type]
    assert (await b.store.get_job(job.id)).energy_j is None
    accounting.down = False
    await watch.store_energy(accounting)  # type: ignore[arg-type]
    assert (await b.store.get_job(job.id)).energy_j == 500

    # A job whose end accounting had not recorded at the last query.
    late = b.clock.now - timedelta(minutes=5)
    values = {"state": JobState.FAILED, "scheduler_id": "8", "ended_at": late}
    job = (await b.store.create_job(make_job().model_copy(update=values))).job
    accounting.consumed.append(JobEnergy(scheduler_id="8", ended_at=late, energy_j=70))
    b.clock.advance(300)
    await watch.store_energy(accounting)  # type: ignore[arg-type]
    assert (await b.store.get_job(job.id)).energy_j == 70


async def test_a_cluster_without_accounting_is_no_fault(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    b: Bench = await bench()
    await EnergyWatch(b.store, None, b.leader, b.clock).run()
    none = NoAccounting("local")
    await EnergyWatch(b.store, none, b.leader, b.clock).store_energy(none)
    assert not caplog.records
