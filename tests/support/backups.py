"""Platforms that tests back up, and the content of restored ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from aitne.core.models.audit import RESTORE, AuditFilter
from aitne.core.settings import Settings
from aitne.operations.backup import archive as archives
from aitne.operations.backup.creation import CreatedBackup, create_backup
from aitne.operations.backup.restoration import RestoredPlatform, restore_backup
from aitne.store import Store
from aitne.supervisor.secret_files import ensure_secrets
from tests.support.jobs import make_job


@pytest.fixture
def source(tmp_path: Path, migrated: Path) -> Settings:
    """Return the settings of a data directory as `aitne up` leaves it, on SQLite."""
    settings = Settings(data_dir=tmp_path / "data")
    fill(settings)
    shutil.copy(migrated, settings.data_dir)
    return settings


def fill(settings: Settings) -> None:
    """Write the files that a data directory has besides its database."""
    for folder in ("manifests", "tls", "jobs", "run"):
        settings.data_dir.joinpath(folder).mkdir(parents=True)
    ensure_secrets(settings.secrets_dir)
    settings.data_dir.joinpath("aitne.toml").write_text('title = "Io"\n')
    settings.data_dir.joinpath("manifests", "abc").write_text("{}")


def create_in(
    settings: Settings, to: Path, *, keep: int = 14, key: Path | None = None
) -> CreatedBackup:
    """Make a backup of the platform in the folder ``to``."""
    return create_backup(settings, to=str(to), keep=keep, recipient=key)


def restore_to(made: CreatedBackup | str, to: Path, **options: Any) -> RestoredPlatform:
    """Restore a backup into the data directory ``to``."""
    path = made if isinstance(made, str) else made.path
    with archives.Archive(Path(path)) as archive:
        return restore_backup(archive, to, **{"key": None, "replace": False, **options})


async def add_job(url: str) -> str:
    """Store a job in the database at ``url``; return its ID."""
    store = Store(url)
    await store.start()
    try:
        job = make_job()
        await store.create_job(job, ())
        return str(job.id)
    finally:
        await store.close()


async def stored(url: str) -> tuple[set[str], int]:
    """Return the IDs of the jobs in the database, and how often it was restored."""
    store = Store(url)
    await store.start()
    try:
        jobs = {str(job.id) for job in await store.list_live_jobs()}
        return jobs, (await store.list_audit_entries(AuditFilter(action=RESTORE))).total
    finally:
        await store.close()


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of each file below ``folder``, by its relative path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
