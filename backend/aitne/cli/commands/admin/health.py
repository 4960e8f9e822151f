"""``admin health``: the state of every part of the platform."""

from __future__ import annotations

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.error_report import FAILED
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url


@command("admin health", example="aitne admin health || echo 'something is down'")
def health(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show the state of every part of the platform. Exit status 1 means that one is down."""
    report = make_client(url, data_dir).admin.health()
    if as_json:
        output.print_json(report.raw)
    else:
        output.print_table(
            ("PART", "STATE", "SINCE", "MESSAGE"),
            [
                (part.name, part.state, f"{output.format_elapsed(part.since)} ago", part.message)
                for part in report.parts
            ],
        )
        for part in report.parts:
            if part.advice:
                output.print_message(f"{part.name}: {output.to_single_line(part.advice)}")
    return FAILED if report.state == "down" else 0
