"""The facts that an upgrade reads from a database before and after its migration."""

from __future__ import annotations

from datetime import timedelta

from aitne.store import Store
from aitne.store.migrations import HEAD
from aitne.store.upgrade_database_state import DatabaseState, read_database_state
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_job


async def test_state_has_the_schema_and_the_jobs_since_a_time(
    store: Store, url: str, clock: Clock
) -> None:
    await store.create_job(make_job(created_at=clock.now - timedelta(seconds=1)))
    assert await read_database_state(url, clock.now) == DatabaseState(HEAD, 0)
    await store.create_job(make_job(created_at=clock.now))
    assert await read_database_state(url, clock.now) == DatabaseState(HEAD, 1)


async def test_empty_database_has_no_schema(empty_url: str, clock: Clock) -> None:
    assert await read_database_state(empty_url, clock.now) == DatabaseState(None, 0)
