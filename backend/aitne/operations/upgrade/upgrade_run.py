"""An upgrade from its request to its end, with the questions and messages of its caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aitne.core.errors import InvalidInput
from aitne.core.models.check_result import CheckResult
from aitne.operations.upgrade import upgrade_checks
from aitne.operations.upgrade.interrupted_upgrade_choice import choose_upgrade
from aitne.operations.upgrade.releases import Releases, own_root
from aitne.operations.upgrade.this_host import ThisHost, find_running_service
from aitne.operations.upgrade.upgrade_journal import hold_upgrade_lock
from aitne.operations.upgrade.upgrade_steps import Upgrade
from aitne.supervisor import offline_bundle
from aitne.supervisor.process_account import ProcessAccount


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The upgrade that is asked for: a wheel, a release of the package index, or a bundle; none of them
    continues one that was interrupted.
    """

    data_dir: Path
    account: ProcessAccount | None
    """Account that commands for the platform run as; None: that of this process."""
    wheel: Path | None = None
    version: str | None = None
    bundle: Path | None = None
    backup_to: Path | None = None
    """Folder for the backup; None: beside the data directory."""
    dry_run: bool = False
    discard_jobs: bool = False


@dataclass(frozen=True, slots=True)
class FinishedUpgrade:
    """The end of an upgrade."""

    release: str
    api_away_s: float | None
    """Seconds for which the portal did not answer; None: it was not running."""
    has_separate_broker: bool
    """True if the broker has to be restarted to use the new release."""


class UpgradeConsole(Protocol):
    """Messages and questions of an upgrade."""

    def show_step(self, step: str, message: str) -> None:
        """Tell what a step does."""

    def show_checks(self, results: Sequence[CheckResult]) -> None:
        """Show the results of the checks before the upgrade."""

    def confirm(self, question: str) -> None:
        """Ask whether to go on. Raises an error if the answer is no."""

    def guard(self) -> AbstractContextManager[None]:
        """Return a context in which the steps run, so that an interruption ends them in order."""


def run_upgrade(request: UpgradeRequest, console: UpgradeConsole) -> FinishedUpgrade | None:
    """Upgrade the platform, or check only; None: it was checked only.

    Raises:
        InvalidInput: the request is invalid.
        Conflict: another upgrade is in progress.
        SetupError: a check or a step has failed.
    """
    releases = Releases(own_root())
    with hold_upgrade_lock(releases.root), offline_bundle.use_bundle(request.bundle):
        wheel = request.wheel
        if request.bundle is not None and wheel is None:
            wheel = offline_bundle.get_wheel(request.bundle)
        data_dir, account = request.data_dir, request.account
        journal, target, fresh = choose_upgrade(
            data_dir, releases, wheel=wheel, version=request.version
        )
        if fresh and request.discard_jobs:
            raise InvalidInput(
                "--discard-jobs decides about an upgrade that has halted, and none has."
            )
        say: Callable[[str], None] = lambda line: console.show_step(journal.step, line)  # noqa: E731
        host = ThisHost(
            data_dir,
            account,
            releases,
            request.backup_to or data_dir.with_name(f"{data_dir.name}-backups"),
            say,
            find_running_service(data_dir, account),
        )
        results: list[CheckResult] = []
        if fresh:
            results = upgrade_checks.check_upgrade(
                data_dir, account, releases, host, journal.present, target
            )
            console.show_checks(results)
        if request.dry_run:
            return None
        upgrade_checks.raise_if_failed(results)
        console.confirm(
            f"Upgrade the platform in {data_dir} from {journal.present} to {journal.target}?"
            if fresh
            else f"Continue the upgrade to {journal.target} at the step {journal.step}?"
        )
        releases.adopt(journal.present)
        with console.guard():
            Upgrade(host, releases.root, console.show_step, discard_jobs=request.discard_jobs).run(
                journal
            )
    return FinishedUpgrade(journal.target, host.api_away_s, host.facts.separate_broker)
