"""``admin upgrade``: the next release of the platform."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output, server_package_check
from aitne.cli.command_registry import command
from aitne.cli.shared_options import DataDir, Json, Yes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from aitne.core.models.check_result import CheckResult


@command(
    "admin upgrade",
    example="""
aitne admin upgrade --version 0.2.0 --dry-run
aitne admin upgrade --wheel aitne-0.2.0-py3-none-any.whl --yes --json
aitne admin upgrade                               continue after an interruption
""",
)
def upgrade(
    wheel: Annotated[
        Path | None,
        typer.Option("--wheel", metavar="FILE", help="The wheel of the release.", dir_okay=False),
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="V", help="A release of the package index.")
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle", metavar="DIR", help="An unpacked bundle of the release, without internet."
        ),
    ] = None,
    backup_to: Annotated[
        Path | None,
        typer.Option(
            "--backup-to", metavar="DIR", help="Folder for the backup; unset: beside the data."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check what can be checked, and change nothing.")
    ] = False,
    discard_jobs: Annotated[
        bool,
        typer.Option(
            "--discard-jobs",
            help="Return to the earlier release though jobs were accepted after the backup.",
        ),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    data_dir: DataDir = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", hidden=True, help="Prepare the new release.")
    ] = False,
) -> int:
    """Upgrade the platform to the next minor release; jobs and sessions continue.

    Checks, installs the release beside the present one, makes a backup, restarts the platform and
    checks its health. If the new release does not work, or Ctrl-C ends the command, the present one
    is started again. After a power cut, the command without a release continues or returns.
    """
    server_package_check.require_server()
    from aitne.cli.views.platform_status import find_platform_dir
    from aitne.operations.upgrade.command_account import find_command_account

    folder = Path(find_platform_dir(data_dir))
    account = find_command_account(folder)
    if prepare:
        from aitne.local_system.settings_loader import load_settings
        from aitne.operations.upgrade import release_preparation
        from aitne.supervisor.process_account import become_account

        if account is not None:
            become_account(account)
        release_preparation.prepare_release(load_settings(folder), output.print_message)
        return 0
    from aitne.operations.upgrade.upgrade_run import UpgradeRequest, run_upgrade

    console = _Console(as_json=as_json, yes=yes)
    done = run_upgrade(
        UpgradeRequest(
            folder,
            account,
            wheel=wheel,
            version=version,
            bundle=bundle,
            backup_to=backup_to,
            dry_run=dry_run,
            discard_jobs=discard_jobs,
        ),
        console,
    )
    if done is None:
        return int(console.check_failed)
    if as_json:
        output.print_json({"release": done.release, "api_away_s": done.api_away_s})
        return 0
    output.print_line(done.release)
    if done.api_away_s is not None:
        output.print_message(
            f"The portal was away for {done.api_away_s:.1f} s; jobs and sessions continued."
        )
    if done.has_separate_broker:
        output.print_message(
            "Restart the broker to use the new release there: systemctl restart aitne-broker."
        )
    return 0


class _Console:
    """Messages and questions of an upgrade, at the terminal or as lines of JSON."""

    def __init__(self, *, as_json: bool, yes: bool) -> None:
        self.check_failed = False
        self._as_json = as_json
        self._yes = yes

    def show_step(self, step: str, message: str) -> None:
        # The output may have been closed, such as by a lost connection; the upgrade goes on.
        with suppress(OSError):
            if self._as_json:
                output.print_json({"step": step, "message": message})
            else:
                output.print_message(message)

    def show_checks(self, results: Sequence[CheckResult]) -> None:
        self.check_failed = any(check.state == "failed" for check in results)
        if self._as_json:
            output.print_json({"checks": [check.model_dump() for check in results]})
            return
        for check in results:
            output.print_message(f"{check.state:6}  {check.name:12}  {check.message}")

    def confirm(self, question: str) -> None:
        if not self._yes:
            output.require_confirmation(question)

    def guard(self) -> AbstractContextManager[None]:
        from aitne.cli.signal_cleanup import exit_on_signals

        return exit_on_signals()
