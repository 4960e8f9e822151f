"""Record of the last backup in the data directory, written by ``aitne admin backup``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.local_system.state_file_reader import DamagedState, read_state


class BackupRecord(Frozen):
    """The last backup: its file, when it was made, and its size."""

    path: str
    created_at: UtcTime
    bytes: int = Field(ge=0)


def backup_record_file(data_dir: Path) -> Path:
    """Return the path of the record."""
    return data_dir / "backup.json"


def read_backup_record(data_dir: Path) -> BackupRecord | None:
    """Return the last backup; None if there is no record or a damaged one."""
    try:
        return read_state(BackupRecord, backup_record_file(data_dir))
    except (OSError, DamagedState):
        return None
