"""``admin doctor``: checks of the platform, its host and its cluster."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.failure import FAILED
from aitne.cli.options import DataDir, Json
from aitne.cli.registry import command

if TYPE_CHECKING:
    from aitne.operations.doctor.run import Examination


@command(
    "admin doctor",
    example="sudo aitne admin doctor --data-dir /var/lib/aitne\naitne admin doctor --job-as alice",
)
def doctor(
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Repair what is safe: modes of secrets, missing folders, leftovers."
        ),
    ] = False,
    job_as: Annotated[
        str | None,
        typer.Option(
            "--job-as", metavar="USER", help="Also check each node by a short job of this user."
        ),
    ] = None,
    as_json: Json = False,
    data_dir: DataDir = None,
) -> int:
    """Check the platform, its host and its cluster, and name the cause and the remedy of each problem.

    It works while the platform is running or not. Exit status 1 means that a check has failed.
    """
    import asyncio
    from pathlib import Path

    from aitne.cli.views.platform_status import platform_dir
    from aitne.operations.doctor.host import open_host
    from aitne.operations.doctor.root_files import read_root_files
    from aitne.operations.doctor.run import as_json as document
    from aitne.operations.doctor.run import examine, store_report
    from aitne.operations.owner import become_owner

    folder = Path(platform_dir(data_dir))
    root_files = read_root_files(folder)
    account = become_owner(folder)
    if account is not None:
        output.say(f"Checking as {account}, the account of the platform.")
    # Not asyncio.run: it would wait for threads that a file system never answers.
    loop = asyncio.new_event_loop()
    host = open_host(folder, job_as, root_files)
    examination = loop.run_until_complete(examine(host))
    repairs = examination.repair() if fix else []
    for line in repairs:
        output.say(line)
    if repairs:
        examination = loop.run_until_complete(examine(open_host(folder, job_as, root_files)))
    try:
        store_report(host, examination)
    except OSError as error:
        output.say(
            f"The results are not stored for the portal: {error.filename}: {error.strerror}."
        )
    if as_json:
        output.answer_json(document(examination.report()))
    else:
        _show(examination)
    status = FAILED if examination.failed else 0
    if examination.hangs:
        sys.stdout.flush()
        os._exit(status)
    loop.close()
    return status


def _show(examination: Examination) -> None:
    subject = None
    rows: list[tuple[str, str, str]] = []
    for check, finding in examination.results:
        if check.subject is not subject:
            subject = check.subject
            rows.append((f"-- {subject}", "", ""))
        rows.append((check.name, str(finding.state), finding.message))
        if finding.remedy and finding.state != "ok":
            rows.append(("", "", f"-> {finding.remedy}"))
    output.table(("CHECK", "STATE", "MESSAGE"), rows)
    counts = {
        state: sum(finding.state == state for _, finding in examination.results)
        for state in ("failed", "warning", "unknown", "ok", "skipped")
    }
    shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    output.say(f"{len(examination.results)} checks in {examination.seconds:.1f} s: {shown}.")
