"""Restarts of hung processes in the audit log and among the events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aitne.core.models.audit import AuditFilter
from aitne.local_system import hung_restart_records
from aitne.local_system.hung_restart_records import HungRestart
from aitne.services.platform.process_restart_audit import ProcessRestarts
from aitne.store import Store

RESTART = HungRestart("hub", "2026-01-02T03:04:05+00:00", 31.4)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'aitne.db'}")
    await store.start()
    yield store
    await store.close()


async def test_restart_is_stored_once(store: Store, tmp_path: Path) -> None:
    restarts = ProcessRestarts(store, tmp_path)
    await restarts.store()
    hung_restart_records.record_restart(tmp_path, RESTART)
    await restarts.store()
    await restarts.store()
    [entry] = await store.list_audit_entries_after(0, AuditFilter(), limit=10)
    assert (entry.actor, entry.action, entry.object) == ("supervisor", "restart_process", "hub")
    assert entry.details == {"reason": "no answer for 31 s"}
    [event] = await store.list_events_after(0)
    assert (event.kind, event.data) == ("process.restarted", {"process": "hub", "silent_s": 31})
    assert hung_restart_records.read_restart_counts(tmp_path) == {"hub": 1}


@pytest.mark.parametrize(
    "damaged",
    ["", "{", "[1]", '{"process": "hub"}', '{"process": "hub", "time": "today", "silent_s": 1}'],
)
async def test_damaged_records_delay_nothing(store: Store, tmp_path: Path, damaged: str) -> None:
    hung_restart_records.record_restart(tmp_path, RESTART)
    (tmp_path / "hung" / "1.json").write_text(damaged)
    (tmp_path / "hung" / "totals").write_text(damaged)
    assert set(hung_restart_records.read_restart_counts(tmp_path).values()) <= {1}
    await ProcessRestarts(store, tmp_path).store()
    assert len(await store.list_events_after(0)) == 1
    hung_restart_records.record_restart(tmp_path, RESTART)
    assert hung_restart_records.read_restart_counts(tmp_path)["hub"] == 1
    assert [path.name for path in (tmp_path / "hung").glob("*.damaged")] == ["1.damaged"]
