"""Settings of backups and their encryption."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from aitne.core.models.base import Strict


class BackupSettings(Strict):
    """Backups of the platform, which `aitne admin backup` makes; its options take precedence."""

    to: str | None = Field(
        None,
        pattern=r"^(/|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/|$))",
        description="Folder for the backups, or `s3://BUCKET/PREFIX`; unset: `--to` is required.",
    )
    keep: int = Field(
        14,
        ge=1,
        le=10_000,
        description="Number of backups to keep in the folder; older ones are deleted.",
    )
    recipient: Path | None = Field(
        None,
        description="File with the public key for which backups are encrypted "
        "(`aitne admin backup key`); unset: backups are not encrypted.",
    )
