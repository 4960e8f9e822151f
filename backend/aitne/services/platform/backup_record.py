"""Record of the last backup in the data directory, written by ``aitne admin backup``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from aitne.core.models.base import Frozen, UtcTime


class BackupRecord(Frozen):
    """The last backup: its file, when it was made, and its size."""

    path: str
    created_at: UtcTime
    bytes: int = Field(ge=0)


def backup_file(data_dir: Path) -> Path:
    """Return the path of the record."""
    return data_dir / "backup.json"


def last_backup(data_dir: Path) -> BackupRecord | None:
    """Return the last backup; None if there is no record or a damaged one."""
    try:
        return BackupRecord.model_validate_json(backup_file(data_dir).read_bytes())
    except (OSError, ValidationError):
        return None
