"""Record of an upgrade in progress, from which an interrupted one is continued or rolled back."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from aitne.core.errors import Conflict, SetupError
from aitne.core.models.base import Frozen
from aitne.local_system.state_file_reader import DamagedState, read_state

FILE = "upgrade.json"
LOCK = "upgrade.lock"


class UpgradeStep(StrEnum):
    """UpgradeStep of an upgrade, in the order of the steps; those from ``STOP`` on undo it."""

    INSTALL = "install"
    """Install the new release beside the present one, and what it needs."""
    BACKUP = "backup"
    """Back up the platform."""
    SWITCH = "switch"
    """Select the new release and start it, which migrates the database."""
    CHECK = "check"
    """Wait until the new release is healthy."""
    STOP = "stop"
    """Stop the new release, which is not healthy."""
    RESTORE = "restore"
    """Restore the backup, if the new release has migrated the database."""
    RETURN = "return"
    """Select the earlier release and start it."""
    HALT = "halt"
    """Wait for the administrator: the earlier release cannot be started without a loss of jobs."""


ROLLBACK = (UpgradeStep.STOP, UpgradeStep.RESTORE, UpgradeStep.RETURN)


class UpgradeJournal(Frozen):
    """State of an upgrade. ``step`` has begun and may have ended."""

    step: UpgradeStep
    present: str
    """Release before the upgrade."""
    target: str
    requirement: str
    """What is installed, with the extras of the earlier release, as a requirement of pip."""
    data_dir: str
    was_running: bool
    backup: str | None = None
    backup_at: datetime | None = None
    """Time before the backup was begun; jobs that were accepted later may be missing in it."""
    schema_revision: str | None = None
    """Revision of the database's schema before the upgrade."""
    failure: str | None = None
    """Reason for the rollback."""

    def write(self, root: Path) -> None:
        """Write the journal to disk in one step."""
        new = root / f".{FILE}.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self.model_dump_json(indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(root / FILE)
        _sync_folder(root)

    @classmethod
    def read(cls, root: Path) -> UpgradeJournal | None:
        """Return the journal of an upgrade in progress; None if there is none. Raises
        ``SetupError`` if it cannot be read.
        """
        path = root / FILE
        try:
            return read_state(cls, path)
        except FileNotFoundError:
            return None
        except (OSError, DamagedState) as error:
            raise SetupError(
                f"The record of an upgrade in progress cannot be read: {error}. If another release has "
                "written it, continue with the program of that one, below `releases`. Otherwise check with "
                f"`aitne status` which release runs, and delete {path} if the platform is healthy."
            ) from error


def remove_journal(root: Path) -> None:
    """Remove the journal: the upgrade has ended."""
    (root / FILE).unlink(missing_ok=True)
    _sync_folder(root)


@contextmanager
def hold_upgrade_lock(root: Path) -> Iterator[None]:
    """Hold the lock of upgrades in the ``with`` block. Raises ``Conflict`` if another upgrade
    runs.
    """
    with (root / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                f"Another upgrade of {root} is running. Wait for its end, then run the command again."
            ) from error
        yield


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
