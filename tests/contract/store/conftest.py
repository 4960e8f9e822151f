"""Stores on SQLite and on PostgreSQL for every test that takes ``store`` or ``url``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aitne.store import Store
from tests.support.postgres import (
    postgres_database,
    postgres_server,
    postgres_template,
    postgres_url,
)

__all__ = ["postgres_database", "postgres_server", "postgres_template", "postgres_url"]


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, seconds: float) -> datetime:
        """Let time pass; return the new time."""
        self.now += timedelta(seconds=seconds)
        return self.now


BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of this test's own. On PostgreSQL it has been migrated: that takes a while."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'aitne.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that nothing has been done to."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'aitne.db'}"
    found: str = request.getfixturevalue("postgres_database")
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(url: str, clock: Clock) -> AsyncIterator[Store]:
    store = Store(url, clock=clock)
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def other(store: Store, url: str, clock: Clock) -> AsyncIterator[Store]:
    """A second store on the same database, as another process would have it."""
    other = Store(url, clock=clock)
    await other.start()
    yield other
    await other.close()


@pytest.fixture
async def epoch(store: Store) -> int:
    """The epoch of a controller that leads."""
    lease = await store.acquire_lease("controller", "one", duration_s=3_600)
    assert lease is not None
    return lease.epoch
