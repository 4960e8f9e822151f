"""``account``: the user's preferences in the portal, and logins in browsers."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import OPERATE, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes


@group("account", OPERATE, summary="Your own account.")
def account() -> None:
    """Group the commands for the user's own account."""


@group("account sessions")
def sessions() -> None:
    """List the browsers in which you are logged in, or log them out."""


ALL = "all"
BROWSER = "browser"


@account.command(
    "preferences",
    epilog=examples(
        "aitne account preferences\naitne account preferences --language de --theme dark"
    ),
)
def preferences(
    language: Annotated[
        str | None,
        typer.Option(
            "--language", metavar="en|de|browser", help="browser: the browser's language."
        ),
    ] = None,
    theme: Annotated[
        str | None, typer.Option("--theme", metavar="auto|light|dark", help="Colour theme.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show your preferences in the portal, or change those that are given."""
    client = make_client(url, data_dir)
    current = client.preferences.get("portal")
    changes: dict[str, str | None] = {}
    if language is not None:
        changes["language"] = None if language == BROWSER else language
    if theme is not None:
        changes["theme"] = theme
    if changes:
        current = client.preferences.put("portal", {**current, **changes})
    if as_json:
        output.print_json(current)
    else:
        output.print_facts(
            [("language", current["language"] or BROWSER), ("theme", current["theme"])]
        )
    return 0


@sessions.command("ls", epilog=examples("aitne account sessions ls"))
def sessions_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the browsers in which you are logged in."""
    sign_ins = make_client(url, data_dir).account.sign_ins()
    return output.print_list(
        as_json,
        sign_ins,
        ("ID", "BROWSER", "ADDRESS", "WITH", "LAST USED"),
        lambda sign_in: (
            sign_in.id,
            output.to_single_line(sign_in.device),
            sign_in.address or "",
            sign_in.source,
            f"{output.format_elapsed(sign_in.last_seen_at)} ago",
        ),
    )


@sessions.command(
    "revoke", epilog=examples("aitne account sessions revoke ID\naitne account sessions revoke all")
)
def sessions_revoke(
    sign_in: Annotated[
        str, typer.Argument(metavar="ID|all", help="An id from `account sessions ls`, or all.")
    ],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Log out one browser, or all of them. Tokens remain valid, including the one in use."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(
            "Log out everywhere?" if sign_in == ALL else f"Log the browser {sign_in} out?"
        )
    if sign_in == ALL:
        count = client.account.revoke_all_sign_ins()
    else:
        client.account.revoke_sign_in(sign_in)
        count = 1
    return output.print_done(
        as_json,
        {"revoked": count, "ended": count},  # ended: the old name, until 0.3
        f"{count} browser{'s' if count != 1 else ''} logged out.",
    )
