"""``account``: the user's sign-ins; and what administrators do about other users' logins."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app

account = group_app("Your own account.")
sessions = group_app("The browsers in which you are logged in.")
account.add_typer(sessions, name="sessions")

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The login name.")]
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
    client = connect(url, data_dir)
    current = client.preferences.get("portal")
    changes: dict[str, str | None] = {}
    if language is not None:
        changes["language"] = None if language == BROWSER else language
    if theme is not None:
        changes["theme"] = theme
    if changes:
        current = client.preferences.put("portal", {**current, **changes})
    if as_json:
        output.answer_json(current)
    else:
        output.facts([("language", current["language"] or BROWSER), ("theme", current["theme"])])
    return 0


@sessions.command("ls", epilog=examples("aitne account sessions ls"))
def sessions_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the browsers in which you are logged in."""
    sign_ins = connect(url, data_dir).account.sign_ins()
    return output.listing(
        as_json,
        sign_ins,
        ("ID", "BROWSER", "ADDRESS", "WITH", "LAST USED"),
        lambda sign_in: (
            sign_in.id,
            output.plain(sign_in.device),
            sign_in.address or "",
            sign_in.source,
            f"{output.since(sign_in.last_seen_at)} ago",
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
    client = connect(url, data_dir)
    if not yes:
        output.confirm(
            "Log out everywhere?" if sign_in == ALL else f"Log the browser {sign_in} out?"
        )
    if sign_in == ALL:
        count = client.account.revoke_all_sign_ins()
    else:
        client.account.revoke_sign_in(sign_in)
        count = 1
    return output.done(
        as_json, {"ended": count}, f"{count} browser{'s' if count != 1 else ''} logged out."
    )


def set_user(
    name: UserName,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="SOURCE",
            help="Identity source: password (the platform itself), ldap, oidc or pam.",
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", metavar="user|admin", help="The role.")
    ] = None,
    display_name: Annotated[str | None, typer.Option("--display-name", help="Full name.")] = None,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Change an account. An account that moves to another source loses its password."""
    from aitne.core.errors import InvalidInput

    options = {"source": source, "role": role, "display_name": display_name}
    changes = {field: value for field, value in options.items() if value is not None}
    if not changes:
        raise InvalidInput("There is nothing to change: pass --source, --role or --display-name.")
    client = connect(url, data_dir)
    if not yes:
        before = client.users.get(name).raw
        output.table(
            ("", "NOW", "THEN"),
            [
                (field, output.plain(_shown(field, before.get(field))), output.plain(value))
                for field, value in changes.items()
            ],
        )
        output.confirm(f"Change {name}?")
    changed = client.users.change(name, **changes)
    return output.done(as_json, changed.raw, f"{name}: changed.")


def reset_link(
    name: UserName, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Print a link that sets a new password for an account, once."""
    link = connect(url, data_dir).users.reset_link(name)
    if as_json:
        output.answer_json(link.raw)
    else:
        output.answer(link.url)
        output.say(f"The link works once, until {link.expires_at.astimezone():%Y-%m-%d %H:%M}.")
    return 0


def unlock(name: UserName, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Unlock an account after too many failed logins."""
    connect(url, data_dir).users.unlock(name)
    return output.done(as_json, {"name": name, "locked": False}, f"{name}: unlocked.")


def reset_second_factor(
    name: UserName,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Remove a user's second factor, and log the user out everywhere."""
    client = connect(url, data_dir)
    if not yes:
        output.confirm(f"Remove the second factor of {name}, and log {name} out everywhere?")
    client.users.reset_second_factor(name)
    return output.done(
        as_json, {"name": name, "second_factor": False}, f"{name}: second factor removed."
    )


def _shown(field: str, value: object) -> object:
    return "password" if field == "source" and value is None else value or ""


apps = {"account": account}
