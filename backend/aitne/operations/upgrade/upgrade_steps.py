"""Steps of an upgrade, forward and back, each of which can be repeated after an interruption."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from aitne.core.errors import AitneError, Conflict, SetupError
from aitne.operations.upgrade import upgrade_journal
from aitne.operations.upgrade.upgrade_journal import ROLLBACK, UpgradeJournal, UpgradeStep

Progress = Callable[[UpgradeStep, str], None]


class UpgradeHost(Protocol):
    """Operations of an upgrade on this machine. Each can be repeated, and raises ``SetupError`` if
    it fails.
    """

    def install(self, version: str, requirement: str) -> None:
        """Install a release beside the others, with everything that it needs to start."""

    def create_backup(self, version: str) -> str:
        """Back up the platform with the release ``version``; return the path of the backup."""

    def restore_backup(self, version: str, path: str) -> None:
        """Restore a backup with the release ``version``. The platform does not run."""

    def schema_revision(self) -> str | None:
        """Return the revision of the database's schema; None if the database is empty."""

    def count_jobs_since(self, time: datetime) -> int:
        """Return the number of jobs that were accepted at or after ``time``."""

    def stop(self) -> None:
        """End the platform, if it runs; its jobs and sessions continue."""

    def select(self, version: str) -> None:
        """Select the release that is started from now on."""

    def start(self) -> None:
        """Start the selected release and wait until it is ready."""

    def restart(self) -> None:
        """End the platform, if it runs, and start the selected release; wait until it is ready."""

    def check_release(self, version: str) -> None:
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
        self._repeated: set[UpgradeStep] = set()
        self._cause: BaseException | None = None
        self._actions: dict[UpgradeStep, Callable[[UpgradeJournal], UpgradeJournal | None]] = {
            UpgradeStep.INSTALL: self._install_release,
            UpgradeStep.BACKUP: self._create_backup,
            UpgradeStep.SWITCH: self._switch_release,
            UpgradeStep.CHECK: self._check_release,
            UpgradeStep.STOP: self._stop_platform,
            UpgradeStep.RESTORE: self._restore_backup,
            UpgradeStep.RETURN: self._return_to_earlier_release,
            UpgradeStep.HALT: self._halt_upgrade,
        }

    def run(self, journal: UpgradeJournal) -> None:
        """Run the steps from the one in ``journal`` on. Whatever a step raises from ``SWITCH`` on,
        Ctrl-C and SIGTERM (as ``SystemExit``) included, leads back to the earlier release.

        Raises:
            RolledBack: the earlier release runs again.
            Halted: an administrator must decide.
            AitneError: a step failed. Before ``SWITCH`` nothing has changed; otherwise the next run
                continues the return to the earlier release.
            KeyboardInterrupt, SystemExit: likewise; the upgrade was interrupted.
        """
        if journal.step == UpgradeStep.HALT:
            again = {"step": UpgradeStep.SWITCH, "failure": None}
            journal = journal.model_copy(
                update={"step": UpgradeStep.STOP} if self._discard_jobs else again
            )
        while True:
            try:
                self._write_journal(journal)
                following = self._actions[journal.step](journal)
            except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - the earlier release must run
                following = self._decide_after_failure(journal, error)
            if following is None:
                break
            journal = following
        upgrade_journal.remove_journal(self._root)
        if journal.failure is not None:
            raise RolledBack(
                f"Release {journal.target} did not work, and {journal.present} is in use again. "
                f"{journal.failure}"
            ) from self._cause
        if journal.step is UpgradeStep.CHECK:
            self._prune_releases(journal)

    def _write_journal(self, journal: UpgradeJournal) -> None:
        try:
            journal.write(self._root)
        except OSError:
            # A full disk does not keep the earlier release from running again.
            if journal.step not in ROLLBACK:
                raise

    def _decide_after_failure(
        self, journal: UpgradeJournal, error: Exception | KeyboardInterrupt | SystemExit
    ) -> UpgradeJournal:
        """Return the state from which the upgrade goes on after a step has raised ``error``. Raises
        that, or a ``SetupError``, if it does not go on.
        """
        if journal.step in (UpgradeStep.SWITCH, UpgradeStep.CHECK):
            self._cause = error
            failure = {"step": UpgradeStep.STOP, "failure": _describe_error(error)}
            return journal.model_copy(update=failure)
        if journal.step in ROLLBACK:
            if journal.step in self._repeated:
                raise SetupError(
                    f"The return to release {journal.present} has failed at the step {journal.step}: "
                    f"{_describe_error(error)} Correct the cause and run `aitne admin upgrade`, which continues it."
                ) from error
            self._repeated.add(journal.step)
            self._progress(
                journal.step, f"The step {journal.step} is repeated: {_describe_error(error)}"
            )
            return journal
        if journal.step is not UpgradeStep.HALT:
            upgrade_journal.remove_journal(self._root)
            unchanged = f"Nothing that runs has changed: release {journal.present} is in use."
            if not isinstance(error, Exception):
                self._progress(journal.step, f"{_describe_error(error)} {unchanged}")
            elif not isinstance(error, AitneError):
                raise SetupError(
                    f"The step {journal.step} has failed: {_describe_error(error)} {unchanged}"
                ) from error
        raise error

    def _prune_releases(self, journal: UpgradeJournal) -> None:
        try:
            self._host.prune(journal.present, journal.target)
        except Exception as error:  # noqa: BLE001 - the new release is healthy all the same
            self._progress(
                UpgradeStep.CHECK, f"Earlier releases were not removed: {_describe_error(error)}"
            )

    def _install_release(self, journal: UpgradeJournal) -> UpgradeJournal:
        self._progress(UpgradeStep.INSTALL, f"Installing release {journal.target}.")
        self._host.install(journal.target, journal.requirement)
        return journal.model_copy(update={"step": UpgradeStep.BACKUP})

    def _create_backup(self, journal: UpgradeJournal) -> UpgradeJournal:
        self._progress(UpgradeStep.BACKUP, "Backing up the platform.")
        revision, began = self._host.schema_revision(), datetime.now(UTC)
        path = self._host.create_backup(journal.present)
        self._progress(UpgradeStep.BACKUP, f"The backup is {path}.")
        backup = {"backup": path, "backup_at": began, "schema_revision": revision}
        return journal.model_copy(update={"step": UpgradeStep.SWITCH, **backup})

    def _switch_release(self, journal: UpgradeJournal) -> UpgradeJournal | None:
        if not journal.was_running:
            self._host.select(journal.target)
            return None
        self._progress(
            UpgradeStep.SWITCH, f"Restarting the platform with release {journal.target}."
        )
        self._host.select(journal.target)
        self._host.restart()
        return journal.model_copy(update={"step": UpgradeStep.CHECK})

    def _check_release(self, journal: UpgradeJournal) -> None:
        self._progress(UpgradeStep.CHECK, "Checking the health of the platform.")
        self._host.check_release(journal.target)

    def _stop_platform(self, journal: UpgradeJournal) -> UpgradeJournal:
        self._progress(
            UpgradeStep.STOP, f"Release {journal.target} does not work: {journal.failure}"
        )
        self._host.stop()
        return journal.model_copy(update={"step": UpgradeStep.RESTORE})

    def _restore_backup(self, journal: UpgradeJournal) -> UpgradeJournal:
        if self._host.schema_revision() != journal.schema_revision:
            assert journal.backup is not None and journal.backup_at is not None  # noqa: S101, PT018
            jobs = self._host.count_jobs_since(journal.backup_at)
            if jobs and not self._discard_jobs:
                return journal.model_copy(update={"step": UpgradeStep.HALT})
            self._progress(UpgradeStep.RESTORE, f"Restoring the backup {journal.backup}.")
            self._host.restore_backup(journal.present, journal.backup)
        return journal.model_copy(update={"step": UpgradeStep.RETURN})

    def _return_to_earlier_release(self, journal: UpgradeJournal) -> None:
        self._progress(UpgradeStep.RETURN, f"Returning to release {journal.present}.")
        self._host.stop()
        self._host.select(journal.present)
        if journal.was_running:
            self._host.start()
            self._host.check_release(journal.present)

    def _halt_upgrade(self, journal: UpgradeJournal) -> None:
        assert journal.backup_at is not None  # noqa: S101
        jobs = self._host.count_jobs_since(journal.backup_at)
        try:
            self._host.start()
            state = f"Release {journal.target} is running."
        except Exception as error:  # noqa: BLE001 - the administrator must decide all the same
            state = f"Release {journal.target} does not start: {_describe_error(error)}"
        raise Halted(
            f"Release {journal.target} is not healthy: {journal.failure} It has migrated the database "
            f"and {jobs} {'job was' if jobs == 1 else 'jobs were'} accepted since the backup "
            f"{journal.backup}, so the backup is not restored. {state} Correct the cause and run "
            "`aitne admin upgrade`, which starts and checks it again, or run `aitne admin upgrade --discard-jobs` to "
            f"return to release {journal.present} without these jobs."
        )


def is_continued(journal: UpgradeJournal, target: str | None) -> bool:
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


def _describe_error(error: BaseException) -> str:
    """Return a sentence about an error."""
    if isinstance(error, AitneError):
        return error.message
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "The upgrade was interrupted."
    return f"{type(error).__name__}: {error}."
