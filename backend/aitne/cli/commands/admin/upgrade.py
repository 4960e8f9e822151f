"""``admin upgrade``: the next release of the platform."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aitne.cli import output, server_part
from aitne.cli.options import DataDir, Json, Yes
from aitne.cli.registry import command

if TYPE_CHECKING:
    from aitne.supervisor.identity import ProcessAccount


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
    server_part.require()
    from aitne.cli.views.platform_status import platform_dir
    from aitne.operations.upgrade.trust import account_of

    folder = Path(platform_dir(data_dir))
    account = account_of(folder)
    if prepare:
        from aitne.host.settings import load_settings
        from aitne.operations.upgrade import prepare as preparation
        from aitne.supervisor.identity import become

        if account is not None:
            become(account)
        preparation.prepare(load_settings(folder), output.say)
        return 0
    return _upgrade(
        folder,
        account,
        wheel=wheel,
        version=version,
        bundle=bundle,
        backup_to=backup_to,
        dry_run=dry_run,
        discard_jobs=discard_jobs,
        yes=yes,
        as_json=as_json,
    )


def _upgrade(
    data_dir: Path,
    account: ProcessAccount | None,
    *,
    wheel: Path | None,
    version: str | None,
    bundle: Path | None,
    backup_to: Path | None,
    dry_run: bool,
    discard_jobs: bool,
    yes: bool,
    as_json: bool,
) -> int:
    from aitne.cli.ending import tidily
    from aitne.core.errors import InvalidInput
    from aitne.operations.upgrade import preflight
    from aitne.operations.upgrade.host import ThisHost, running_service
    from aitne.operations.upgrade.journal import UpgradeStep, only_upgrade
    from aitne.operations.upgrade.plan import begun
    from aitne.operations.upgrade.releases import Releases, own_root
    from aitne.operations.upgrade.steps import Upgrade
    from aitne.supervisor import bundles

    releases = Releases(own_root())

    def tell(step: str, message: str) -> None:
        # The output may have been closed, such as by a lost connection; the upgrade goes on.
        with suppress(OSError):
            if as_json:
                output.answer_json({"step": step, "message": message})
            else:
                output.say(message)

    def progress(step: UpgradeStep, message: str) -> None:
        tell(step, message)

    with only_upgrade(releases.root), bundles.used(bundle):
        if bundle is not None and wheel is None:
            wheel = bundles.wheel_of(bundle)
        journal, target, fresh = begun(data_dir, releases, wheel=wheel, version=version)
        if fresh and discard_jobs:
            raise InvalidInput(
                "--discard-jobs decides about an upgrade that has halted, and none has."
            )
        host = ThisHost(
            data_dir,
            account,
            releases,
            backup_to or data_dir.with_name(f"{data_dir.name}-backups"),
            lambda line: tell(journal.step, line),
            running_service(data_dir, account),
        )
        results = []
        if fresh:
            results = preflight.checks(data_dir, account, releases, host, journal.present, target)
            _tell_checks(results, as_json=as_json)
        if dry_run:
            return int(any(check.state == "failed" for check in results))
        preflight.refuse(results)
        if not yes:
            output.confirm(
                f"Upgrade the platform in {data_dir} from {journal.present} to {journal.target}?"
                if fresh
                else f"Continue the upgrade to {journal.target} at the step {journal.step}?"
            )
        releases.adopt(journal.present)
        with tidily():
            Upgrade(host, releases.root, progress, discard_jobs=discard_jobs).run(journal)
    done: dict[str, Any] = {"release": journal.target, "api_away_s": host.api_away_s}
    if as_json:
        output.answer_json(done)
        return 0
    output.answer(journal.target)
    if host.api_away_s is not None:
        output.say(f"The portal was away for {host.api_away_s:.1f} s; jobs and sessions continued.")
    if host.facts.separate_broker:
        output.say(
            "Restart the broker to use the new release there: systemctl restart aitne-broker."
        )
    return 0


def _tell_checks(results: list[Any], *, as_json: bool) -> None:
    if as_json:
        output.answer_json({"checks": [check.model_dump() for check in results]})
        return
    for check in results:
        output.say(f"{check.state:6}  {check.name:12}  {check.message}")
