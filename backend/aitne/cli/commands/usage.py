"""``usage``: hours used in a month, by project and user."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import completion, output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, ProjectArgument, Url


@group(
    "usage",
    LOOK,
    example="aitne usage --project vision --month 2026-03 --csv\naitne usage report vision",
    alone=True,
)
def usage(
    context: typer.Context,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            help="One project; unset: all that you may see.",
            autocompletion=completion.complete_projects,
        ),
    ] = None,
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="YYYY-MM", help="In UTC; unset: the current one."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the usage of a month by user.

    The table has jobs, CPU-hours and GPU-hours by project and user. GPU-hours count each GPU of a
    job.
    """
    if context.invoked_subcommand is not None:
        return 0
    month_usage = make_client(url, data_dir).projects.usage(project, month=month)
    if as_json:
        output.print_json(month_usage.raw)
    elif as_csv:
        import csv

        types = sorted({kind for row in month_usage.rows for kind in row.gpu_hours_by_type})
        heads = ("month", "project", "user", "jobs", "cpu_hours", "gpu_hours")
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow((*heads, *(f"gpu_hours_{kind}" for kind in types), "energy_j"))
        for row in month_usage.rows:
            by_type = (row.gpu_hours_by_type.get(kind, 0) for kind in types)
            figures = (row.jobs, row.cpu_hours, row.gpu_hours, *by_type, row.energy_j)
            lines.writerow((month_usage.month, row.project, row.user, *figures))
    else:
        output.print_table(
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
                for row in month_usage.rows
            ],
        )
        until = f"{month_usage.as_of:%Y-%m-%d %H:%M} UTC"
        output.print_message(f"{month_usage.month}, until {until}.")
    return 0


@usage.command("report", epilog=examples("aitne usage report vision --month 2026-03"))
def report(
    project: ProjectArgument,
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="YYYY-MM", help="In UTC; unset: the current one."),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the usage report of a project for a month.

    It has the usage by member, and waiting times and outcomes of jobs. The portal has the same
    report as a page to print: Projects, the project, Usage, Report.
    """
    summary = make_client(url, data_dir).projects.report(project, month=month)
    if as_json:
        output.print_json(summary.raw)
        return 0
    joules = summary.total.energy_j
    records = "Slurm's accounting" if summary.source == "scheduler" else "the platform's own jobs"
    output.print_facts(
        [
            (
                "project",
                f"{summary.project} ({summary.title})" if summary.title else summary.project,
            ),
            ("month", f"{summary.month}, until {summary.as_of:%Y-%m-%d %H:%M} UTC"),
            ("by", records),
            ("jobs", summary.total.jobs),
            ("GPU-hours", f"{summary.total.gpu_hours:.2f}"),
            ("CPU-hours", f"{summary.total.cpu_hours:.2f}"),
            ("energy", "not measured" if joules is None else f"{joules / 3.6e6:.2f} kWh"),
            ("ended", ", ".join(f"{state} {jobs}" for state, jobs in summary.outcomes.items())),
        ]
    )
    types = sorted(summary.total.gpu_hours_by_type)
    if summary.rows:
        output.print_line("")
        output.print_table(
            ("USER", "JOBS", "CPU HOURS", "GPU HOURS", *(kind.upper() for kind in types)),
            [
                (
                    *(row.user, row.jobs, f"{row.cpu_hours:.2f}", f"{row.gpu_hours:.2f}"),
                    *(f"{row.gpu_hours_by_type.get(kind, 0):.2f}" for kind in types),
                )
                for row in summary.rows
            ],
        )
    if summary.waits:
        output.print_line("")
        output.print_table(
            ("USER", "STARTED", "HALF WITHIN", "9 OF 10 WITHIN", "LONGEST"),
            [
                (
                    wait.user,
                    wait.jobs,
                    *map(output.format_duration, (wait.median_s, wait.p90_s, wait.max_s)),
                )
                for wait in summary.waits
            ],
        )
    return 0
