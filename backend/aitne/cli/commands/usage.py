"""``usage``: who has used how much in a month."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, verb_app


def usage(
    project: Annotated[
        str | None, typer.Option("--project", help="One project; unset: all you may see.")
    ] = None,
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="In UTC; unset: this one.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Answer with lines of CSV.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show who has used how much in a month.

    By project and user: jobs, CPU-hours and GPU-hours. Each GPU counts.
    """
    report = connect(url, data_dir).projects.usage(project, month=month)
    if as_json:
        output.answer_json(report.raw)
    elif as_csv:
        import csv

        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(("month", "project", "user", "jobs", "cpu_hours", "gpu_hours"))
        for row in report.rows:
            figures = (row.jobs, row.cpu_hours, row.gpu_hours)
            lines.writerow((report.month, row.project, row.user, *figures))
    else:
        output.table(
            ("PROJECT", "USER", "JOBS", "CPU HOURS", "GPU HOURS", "BY TYPE"),
            [
                (
                    row.project,
                    row.user,
                    row.jobs,
                    f"{row.cpu_hours:.2f}",
                    f"{row.gpu_hours:.2f}",
                    " ".join(f"{kind} {used:.2f}" for kind, used in row.gpu_hours_by_type.items()),
                )
                for row in report.rows
            ],
        )
        until = f"{report.as_of:%Y-%m-%d %H:%M} UTC"
        output.say(f"{report.month}, until {until}.")
    return 0


apps = {
    "usage": verb_app("usage", usage, example="aitne usage --project vision --month 2026-03 --csv")
}
