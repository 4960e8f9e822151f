"""``admin doctor``: checks of the platform, its host and its cluster."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.error_report import FAILED
from aitne.cli.shared_options import DataDir, Json

if TYPE_CHECKING:
    from aitne.operations.doctor.check_execution import Examination


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
    from pathlib import Path

    from aitne.cli.views.platform_status import find_platform_dir
    from aitne.operations.doctor.check_execution import diagnose, make_json_document

    folder = Path(find_platform_dir(data_dir))
    examination = diagnose(folder, job_as, fix=fix, say=output.print_message)
    if as_json:
        output.print_json(make_json_document(examination.report()))
    else:
        _print_examination(examination)
    status = FAILED if examination.has_failed else 0
    if examination.hangs:
        sys.stdout.flush()
        os._exit(status)
    return status


def _print_examination(examination: Examination) -> None:
    subject = None
    rows: list[tuple[str, str, str]] = []
    for check, finding in examination.results:
        if check.subject is not subject:
            subject = check.subject
            rows.append((f"-- {subject}", "", ""))
        rows.append((check.name, str(finding.state), finding.message))
        if finding.remedy and finding.state != "ok":
            rows.append(("", "", f"-> {finding.remedy}"))
    output.print_table(("CHECK", "STATE", "MESSAGE"), rows)
    counts = {
        state: sum(finding.state == state for _, finding in examination.results)
        for state in ("failed", "warning", "unknown", "ok", "skipped")
    }
    shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    output.print_message(
        f"{len(examination.results)} checks in {examination.seconds:.1f} s: {shown}."
    )
