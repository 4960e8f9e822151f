"""Steps of an upgrade, forward and back, each of which can be repeated after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from aitne.core.errors import Conflict, SetupError
from aitne.operations.upgrade import journal as journals
from aitne.operations.upgrade.journal import ROLLBACK, UpgradeJournal, UpgradeStep

Progress = Callable[[UpgradeStep, str], None]


class UpgradeHost(Protocol):
    """Operations of an upgrade on this machine. Each can be repeated, and raises ``SetupError`` if
    it fails.
    """

    def install(self, version: str, requirement: str) -> None:
        """Install a release beside the others, with everything that it needs to start."""

    def backup(self, version: str) -> str:
        """Back up the platform with the release ``version``; return the path of the backup."""

    def restore(self, version: str, path: str) -> None:
        """Restore a backup with the release ``version``. The platform does not run."""

    def schema_revision(self) -> str | None:
        """Return the revision of the database's schema; None if the database is empty."""

    def jobs_since(self, time: datetime) -> int:
        """Return the number of jobs that were accepted at or after ``time``."""

    def stop(self) -> None:
        """End the platform, if it runs; its jobs and sessions continue."""

    def select(self, version: str) -> None:
        """Select the release that is started from now on."""

    def start(self) -> None:
        """Start the selected release and wait until it is ready."""

    def restart(self) -> None:
        """End the platform, if it runs, and start the selected release; wait until it is ready."""

    def check(self, version: str) -> None:
        """Wait until the platform is healthy and runs the release ``version``."""

    def prune(self, *keep: str) -> None:
        """Remove other installed releases."""


class RolledBack(SetupError):
    """Error: the new release did not work, and the earlier one runs again."""


class Halted(Conflict):
    """Error: the new release does not work, and a return to the earlier one would lose jobs."""


class Upgrade:
    """Upgrade in progress. ``run`` returns when the new release is healthy.

    Args:
        discard_jobs: whether the backup is restored even if jobs were accepted after it.
    """

    def __init__(
        self, host: UpgradeHost, root: Path, progress: Progress, *, discard_jobs: bool = False
    ) -> None:
        self._host = host
        self._root = root
        self._progress = progress
        self._discard_jobs = discard_jobs
        self._actions: dict[UpgradeStep, Callable[[UpgradeJournal], UpgradeJournal | None]] = {
            UpgradeStep.INSTALL: self._install,
            UpgradeStep.BACKUP: self._backup,
            UpgradeStep.SWITCH: self._switch,
            UpgradeStep.CHECK: self._check,
            UpgradeStep.STOP: self._stop,
            UpgradeStep.RESTORE: self._restore,
            UpgradeStep.RETURN: self._return,
            UpgradeStep.HALT: self._halt,
        }

    def run(self, journal: UpgradeJournal) -> None:
        """Run the steps from the one in ``journal`` on.

        Raises:
            RolledBack: the earlier release runs again.
            Halted: an administrator must decide.
            AitneError: a step failed. Before ``SWITCH`` nothing has changed; otherwise the next run
                continues.
        """
        if journal.step == UpgradeStep.HALT:
            again = {"step": UpgradeStep.SWITCH, "failure": None}
            journal = journal.model_copy(
                update={"step": UpgradeStep.STOP} if self._discard_jobs else again
            )
        while True:
            journal.write(self._root)
            try:
                following = self._actions[journal.step](journal)
            except Exception:
                if journal.step in (UpgradeStep.INSTALL, UpgradeStep.BACKUP):
                    journals.remove(self._root)
                raise
            if following is None:
                break
            journal = following
        journals.remove(self._root)
        if journal.failure is not None:
            raise RolledBack(
                f"Release {journal.target} did not work, and {journal.present} is in use again. "
                f"{journal.failure}"
            )

    def _install(self, journal: UpgradeJournal) -> UpgradeJournal:
        self._progress(UpgradeStep.INSTALL, f"Installing release {journal.target}.")
        self._host.install(journal.target, journal.requirement)
        return journal.model_copy(update={"step": UpgradeStep.BACKUP})

    def _backup(self, journal: UpgradeJournal) -> UpgradeJournal:
        self._progress(UpgradeStep.BACKUP, "Backing up the platform.")
        revision, began = self._host.schema_revision(), datetime.now(UTC)
        path = self._host.backup(journal.present)
        self._progress(UpgradeStep.BACKUP, f"The backup is {path}.")
        backup = {"backup": path, "backup_at": began, "schema_revision": revision}
        return journal.model_copy(update={"step": UpgradeStep.SWITCH, **backup})

    def _switch(self, journal: UpgradeJournal) -> UpgradeJournal | None:
        if not journal.was_running:
            self._host.select(journal.target)
            return None
        self._progress(
            UpgradeStep.SWITCH, f"Restarting the platform with release {journal.target}."
        )
        self._host.select(journal.target)
        try:
            self._host.restart()
        except SetupError as error:
            return _failed(journal, error)
        return journal.model_copy(update={"step": UpgradeStep.CHECK})

    def _check(self, journal: UpgradeJournal) -> UpgradeJournal | None:
        self._progress(UpgradeStep.CHECK, "Checking the health of the platform.")
        try:
            self._host.check(journal.target)
        except SetupError as error:
            return _failed(journal, error)
        self._host.prune(journal.present, journal.target)
        return None

    def _stop(self, journal: UpgradeJournal) -> UpgradeJournal:
        self._progress(
            UpgradeStep.STOP, f"Release {journal.target} does not work: {journal.failure}"
        )
        self._host.stop()
        return journal.model_copy(update={"step": UpgradeStep.RESTORE})

    def _restore(self, journal: UpgradeJournal) -> UpgradeJournal:
        if self._host.schema_revision() != journal.schema_revision:
            assert journal.backup is not None and journal.backup_at is not None  # noqa: S101, PT018
            jobs = self._host.jobs_since(journal.backup_at)
            if jobs and not self._discard_jobs:
                return journal.model_copy(update={"step": UpgradeStep.HALT})
            self._progress(UpgradeStep.RESTORE, f"Restoring the backup {journal.backup}.")
            self._host.restore(journal.present, journal.backup)
        return journal.model_copy(update={"step": UpgradeStep.RETURN})

    def _return(self, journal: UpgradeJournal) -> None:
        self._progress(UpgradeStep.RETURN, f"Returning to release {journal.present}.")
        self._host.stop()
        self._host.select(journal.present)
        self._host.start()
        self._host.check(journal.present)

    def _halt(self, journal: UpgradeJournal) -> None:
        assert journal.backup_at is not None  # noqa: S101
        jobs = self._host.jobs_since(journal.backup_at)
        try:
            self._host.start()
            state = f"Release {journal.target} is running."
        except SetupError as error:
            state = f"Release {journal.target} does not start: {error.message}"
        raise Halted(
            f"Release {journal.target} is not healthy: {journal.failure} It has migrated the database "
            f"and {jobs} {'job was' if jobs == 1 else 'jobs were'} accepted since the backup "
            f"{journal.backup}, so the backup is not restored. {state} Correct the cause and run "
            "`aitne admin upgrade`, which starts and checks it again, or run `aitne admin upgrade --discard-jobs` to "
            f"return to release {journal.present} without these jobs."
        )


def continued(journal: UpgradeJournal, target: str | None) -> bool:
    """Return whether an upgrade in progress is to be continued, and not begun anew; ``target`` is
    the release that was asked for now, if any.

    Raises:
        Conflict: it must be continued first.
    """
    if target in (None, journal.target):
        return True
    if journal.step in (UpgradeStep.INSTALL, UpgradeStep.BACKUP):
        return False
    what = "rollback of the upgrade" if journal.step in ROLLBACK else "upgrade"
    raise Conflict(
        f"The {what} to {journal.target} was interrupted. Run `aitne admin upgrade` without a release "
        "first, which continues it."
    )


def _failed(journal: UpgradeJournal, error: SetupError) -> UpgradeJournal:
    return journal.model_copy(update={"step": UpgradeStep.STOP, "failure": error.message})
