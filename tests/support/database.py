"""A database with all its tables, made once: making them takes longer than most tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aitne.core.settings import Settings
from aitne.store import Store


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite file that is migrated, to be copied into a data directory."""

    async def make(settings: Settings) -> None:
        store = Store(settings.database_url)
        await store.start()
        await store.close()

    folder = tmp_path_factory.mktemp("migrated")
    asyncio.run(make(Settings(data_dir=folder)))
    return folder / "aitne.db"
