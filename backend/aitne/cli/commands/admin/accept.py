"""``admin accept``: acceptance test of a site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.error_report import FAILED
from aitne.cli.shared_options import DataDir, Json, Url


@command(
    "admin accept",
    example="aitne admin accept --as alice\n"
    "aitne admin accept --as alice --gpu --fabric --venv /software/torch --anonymous",
)
def accept(
    user: Annotated[
        str | None, typer.Option("--as", metavar="USER", help="User whose jobs run; unset: you.")
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Also test GPUs and NCCL.")] = False,
    fabric: Annotated[
        bool, typer.Option("--fabric", help="Also measure the network between two nodes.")
    ] = False,
    beegfs: Annotated[bool, typer.Option("--beegfs", help="Also test BeeGFS.")] = False,
    venv: Annotated[
        str | None,
        typer.Option(
            "--venv",
            metavar="DIR",
            help="Environment with PyTorch on the nodes, for NCCL and fabric.",
        ),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option("--output", metavar="DIR", help="Folder for report.html and report.json."),
    ] = Path("acceptance"),
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Remove host and user names from the report.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Test a site through its API as one of its users, and write a report for an issue.

    Sessions, jobs, arrays, ranks, containers, datasets, limits and a fault are tested with small jobs,
    which are cancelled if the command is interrupted. Exit status 1 means that a step has failed.
    """
    from aitne.cli.job_lookup import make_client
    from aitne.cli.signal_cleanup import exit_on_signals
    from aitne.operations.acceptance.acceptance_report import StepResult, make_report, write_report
    from aitne.operations.acceptance.site_client import AcceptanceSite
    from aitne.operations.acceptance.step_execution import list_private_words, run_steps
    from aitne.operations.impersonation_token import acting_as_user

    results: list[StepResult] = []
    with (
        exit_on_signals(),
        acting_as_user(make_client(url, data_dir), user, "acceptance") as client,
    ):
        site = AcceptanceSite(client, gpu=gpu, fabric=fabric, beegfs=beegfs, venv=venv)
        private = list(list_private_words(site)) if anonymous else []
        nodes = len(client.nodes.list())
        complete = False
        try:
            run_steps(site, output.print_message, results)
            complete = True
        finally:
            report = make_report(results, nodes, interrupted=not complete, private=private)
            paths = write_report(report, folder)
    if as_json:
        output.print_json(report.model_dump(mode="json"))
    else:
        output.print_table(
            ("STEP", "STATE", "DURATION", "MESSAGE"),
            [
                (
                    result.name,
                    str(result.state),
                    output.format_duration(result.duration_s),
                    result.message,
                )
                for result in report.checks
            ],
        )
        for result in report.checks:
            if result.remedy:
                output.print_message(f"{result.name}: {result.remedy}")
        output.print_message(f"The report is in {' and '.join(map(str, paths))}.")
    return FAILED if report.has_failed else 0
