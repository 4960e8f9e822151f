"""``notifications``: notifications of the user and their channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url

if TYPE_CHECKING:
    pass


@group("notifications", LOOK)
def inbox() -> None:
    """List notifications, mark them as read, and change the settings."""


@inbox.command(
    "ls",
    epilog=examples("""
aitne notifications ls
aitne notifications ls --all --json
"""),
)
def inbox_ls(
    everything: Annotated[bool, typer.Option("--all", help="Also read notifications.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number.")] = 50,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List your unread notifications, newest first."""
    notifications = list(
        make_client(url, data_dir).notifications.list(unread=not everything, limit=limit)
    )
    return output.print_list(
        as_json,
        notifications,
        ("ID", "TIME", "LEVEL", "WHAT"),
        lambda notification: (
            notification.id,
            output.format_time(notification.created_at),
            notification.level,
            output.to_single_line(notification.title, 70),
        ),
    )


@inbox.command(
    "read",
    epilog=examples("""
aitne notifications read 17 18
aitne notifications read --all
"""),
)
def inbox_read(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", help="Ids of notifications.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All notifications.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Mark some or all notifications as read."""
    if bool(ids) == everything:
        from aitne.core.errors import InvalidInput

        raise InvalidInput("Name notifications by their ids, or pass --all.")
    unread = make_client(url, data_dir).notifications.mark_read(None if everything else ids)
    return output.print_done(as_json, {"unread": unread}, f"{unread} unread.")


@inbox.command(
    "settings",
    epilog=examples("""
aitne notifications settings
aitne notifications settings --tell job_failed=mail --not job_finished=browser
aitne notifications settings --mail ada@example.org
"""),
)
def inbox_settings(
    tell: Annotated[
        list[str] | None,
        typer.Option("--tell", metavar="KIND=CHANNEL", help="Use this channel; may be repeated."),
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option("--not", metavar="KIND=CHANNEL", help="Do not use it; may be repeated."),
    ] = None,
    mail: Annotated[
        str | None, typer.Option("--mail", metavar="ADDRESS|none", help="Mail address.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show your notification settings, or change those that are given."""
    client = make_client(url, data_dir)
    settings = client.notifications.settings()
    if tell or leave or mail is not None:
        choices = {kind: dict(by) for kind, by in settings.choices.items()}
        for texts, enabled in ((tell or [], True), (leave or [], False)):
            for text in texts:
                kind, _, channel = text.partition("=")
                choices.setdefault(kind, {})[channel] = enabled
        settings = client.notifications.set(
            choices,
            mail=settings.mail if mail is None else (None if mail == "none" else mail),
            quiet_until=settings.raw["quiet_until"],
        )
    if as_json:
        output.print_json(settings.raw)
        return 0
    rows = [
        (kind, *("yes" if by.get(channel) else "" for channel in settings.channels))
        for kind, by in settings.choices.items()
    ]
    output.print_table(("WHAT", *(channel.upper() for channel in settings.channels)), rows)
    output.print_message(f"Mail goes to {settings.mail}." if settings.mail else "No mail address.")
    return 0
