"""``admin maintenance``: periods in which no new jobs start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes
from aitne.cli.time_options import parse_time

if TYPE_CHECKING:
    from aitne.client.admin_records import MaintenanceRecord


@group("admin maintenance")
def maintenance() -> None:
    """Maintenance: new jobs are held, running jobs continue."""


@maintenance.command(
    "on",
    epilog=examples(
        "aitne admin maintenance on --message 'New switches' --until 4h\n"
        "aitne admin maintenance on --from '2026-03-01 08:00' --until '2026-03-01 12:00'"
    ),
)
def maintenance_on(
    message: Annotated[str, typer.Option("--message", help="Reason, shown to all users.")] = "",
    starts: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="A time, or 2h from now; unset: now."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="A time, or 2h from now; unset: no end."),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Hold new jobs, now or from a later time. They are accepted, and start afterwards."""
    client = make_client(url, data_dir)
    starts_at, ends_at = parse_time("--from", starts), parse_time("--until", until)
    if not yes:
        output.print_facts(
            [
                ("From", output.format_time(starts_at) or "now"),
                ("Until", output.format_time(ends_at) or "`aitne admin maintenance off`"),
                ("Message", message),
            ]
        )
        output.require_confirmation("No new jobs start in this period. Continue?")
    return _print_status(
        client.maintenance.on(message, starts_at=starts_at, ends_at=ends_at), as_json=as_json
    )


@maintenance.command("off", epilog=examples("aitne admin maintenance off --yes"))
def maintenance_off(
    yes: Yes = False, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """End the maintenance, or cancel a scheduled one."""
    client = make_client(url, data_dir)
    if not yes:
        output.print_message(_format_status(client.maintenance.status()))
        output.require_confirmation("End it?")
    return _print_status(client.maintenance.off(), as_json=as_json)


@maintenance.command("status", epilog=examples("aitne admin maintenance status --json"))
def maintenance_status(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show whether maintenance is on or scheduled."""
    return _print_status(make_client(url, data_dir).maintenance.status(), as_json=as_json)


def _print_status(status: MaintenanceRecord, *, as_json: bool) -> int:
    if as_json:
        output.print_json(status.raw)
    else:
        output.print_line(_format_status(status))
    return 0


def _format_status(status: MaintenanceRecord) -> str:
    reason = f" {status.message}" if status.message else ""
    until = output.format_time(status.ends_at) or "it is turned off"
    if status.phase == "on":
        return f"Maintenance since {output.format_time(status.starts_at)}, until {until}.{reason}"
    if status.phase == "scheduled":
        return f"Maintenance from {output.format_time(status.starts_at)}, until {until}.{reason}"
    return "No maintenance: new jobs start."
