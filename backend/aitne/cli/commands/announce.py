"""``announce``: messages from administrators to users."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes
from aitne.cli.time_options import parse_time
from aitne.client.admin_records import AnnouncementRecord


@group("announce", LOOK)
def announce() -> None:
    """List, publish, edit and remove announcements."""


Id = Annotated[str, typer.Argument(metavar="ID", help="An id from `announce ls`.")]
Severity = Annotated[
    str | None,
    typer.Option("--severity", metavar="info|warning|critical", help="Severity."),
]
Projects = Annotated[
    list[str] | None,
    typer.Option("--project", help="Only for its members; may be repeated; unset: all users."),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="A time, or 2h from now; unset: now."),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="A time, or 2h from now; unset: no end."),
]


@announce.command("ls", epilog=examples("aitne announce ls\naitne announce ls --all --json"))
def announce_ls(
    everything: Annotated[
        bool, typer.Option("--all", help="Also past and future ones; administrators only.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List your current announcements, the most important first."""
    client = make_client(url, data_dir)
    announcements = [*client.announcements.all()] if everything else client.announcements.list()
    if as_json:
        output.print_json([announcement.raw for announcement in announcements])
    elif announcements:
        output.print_table(
            ("ID", "SEVERITY", "FROM", "UNTIL", "FOR", "TEXT"),
            [_make_row(announcement) for announcement in announcements],
        )
    else:
        output.print_message("There are no announcements.")
    return 0


@announce.command(
    "create",
    epilog=examples(
        "aitne announce create 'The file system is slow until noon.' --severity warning --until 4h"
    ),
)
def announce_create(
    text: Annotated[str, typer.Argument(help="Plain text.")],
    severity: Severity = None,
    projects: Projects = None,
    starts: From = None,
    until: Until = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Publish an announcement; administrators only."""
    client = make_client(url, data_dir)
    starts_at, ends_at = parse_time("--from", starts), parse_time("--until", until)
    if not yes:
        output.print_facts(
            [
                ("Text", text),
                ("Severity", severity or "info"),
                ("For", ", ".join(projects or ()) or "all users"),
                ("From", output.format_time(starts_at) or "now"),
                ("Until", output.format_time(ends_at) or "it is deleted"),
            ]
        )
        output.require_confirmation("Announce this?")
    made = client.announcements.create(
        text,
        severity=severity or "info",
        projects=projects or (),
        starts_at=starts_at,
        ends_at=ends_at,
    )
    return _print_announcement(made, "announced", as_json=as_json)


@announce.command(
    "edit", epilog=examples("aitne announce edit 5f2d1c0b9a8e7d6c --until 2h --severity critical")
)
def announce_edit(
    announcement: Id,
    text: Annotated[str | None, typer.Option("--text", help="The new text.")] = None,
    severity: Severity = None,
    projects: Projects = None,
    starts: From = None,
    until: Until = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Change an announcement; administrators only. Fields that are not given keep their values."""
    changes = {
        "text": text,
        "severity": severity,
        "projects": projects,
        "starts_at": parse_time("--from", starts),
        "ends_at": parse_time("--until", until),
    }
    fields = {name: value for name, value in changes.items() if value is not None}
    changed = make_client(url, data_dir).announcements.change(announcement, **fields)
    return _print_announcement(changed, "changed", as_json=as_json)


@announce.command("delete", epilog=examples("aitne announce delete 5f2d1c0b9a8e7d6c --yes"))
def announce_delete(
    announcement: Id,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Delete an announcement; administrators only."""
    client = make_client(url, data_dir)
    if not yes:
        output.print_message(output.to_single_line(client.announcements.get(announcement).text))
        output.require_confirmation(f"Delete announcement {announcement}?")
    client.announcements.delete(announcement)
    return output.print_done(
        as_json, {"id": announcement, "deleted": True}, f"{announcement}: deleted."
    )


@announce.command("dismiss", epilog=examples("aitne announce dismiss 5f2d1c0b9a8e7d6c"))
def announce_dismiss(
    announcement: Id, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Hide an announcement for yourself. Critical ones cannot be hidden."""
    make_client(url, data_dir).announcements.dismiss(announcement)
    return output.print_done(
        as_json, {"id": announcement, "dismissed": True}, f"{announcement}: dismissed."
    )


def _make_row(announcement: AnnouncementRecord) -> tuple[str, ...]:
    return (
        announcement.id,
        announcement.severity,
        output.format_time(announcement.starts_at),
        output.format_time(announcement.ends_at),
        ", ".join(announcement.projects) or "all users",
        f"{announcement.text} (dismissed)" if announcement.dismissed else announcement.text,
    )


def _print_announcement(announcement: AnnouncementRecord, what: str, *, as_json: bool) -> int:
    return output.print_done(as_json, announcement.raw, f"{announcement.id}: {what}.")
