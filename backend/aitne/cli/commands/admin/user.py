"""``admin user``: accounts, their passwords and locks."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes
from aitne.client import User


@group("admin user", summary="Accounts.")
def users() -> None:
    """Group the commands for accounts."""


UserName = Annotated[str, typer.Argument(metavar="NAME", help="The login name.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@users.command("set", epilog=examples("aitne admin user set ada --source ldap"))
def user_set(
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
    client = make_client(url, data_dir)
    if not yes:
        before = client.users.get(name).raw
        output.print_table(
            ("", "NOW", "THEN"),
            [
                (
                    field,
                    output.to_single_line(_format_value(field, before.get(field))),
                    output.to_single_line(value),
                )
                for field, value in changes.items()
            ],
        )
        output.require_confirmation(f"Change {name}?")
    changed = client.users.change(name, **changes)
    return output.print_done(as_json, changed.raw, f"{name}: changed.")


@users.command("reset-link", epilog=examples("aitne admin user reset-link ada"))
def user_reset_link(
    name: UserName, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Print a link that sets a new password for an account, once."""
    link = make_client(url, data_dir).users.reset_link(name)
    if as_json:
        output.print_json(link.raw)
    else:
        output.print_line(link.url)
        output.print_message(
            f"The link works once, until {link.expires_at.astimezone():%Y-%m-%d %H:%M}."
        )
    return 0


@users.command("unlock", epilog=examples("aitne admin user unlock ada"))
def user_unlock(
    name: UserName, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Unlock an account after too many failed logins."""
    make_client(url, data_dir).users.unlock(name)
    return output.print_done(as_json, {"name": name, "locked": False}, f"{name}: unlocked.")


@users.command(
    "reset-second-factor", epilog=examples("aitne admin user reset-second-factor ada --yes")
)
def user_reset_second_factor(
    name: UserName,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Remove a user's second factor, and log the user out everywhere."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(
            f"Remove the second factor of {name}, and log {name} out everywhere?"
        )
    client.users.reset_second_factor(name)
    return output.print_done(
        as_json, {"name": name, "second_factor": False}, f"{name}: second factor removed."
    )


@users.command("ls")
def user_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List all accounts with role and project."""
    accounts = list(make_client(url, data_dir).users.list())
    return output.print_list(
        as_json,
        accounts,
        ("NAME", "ROLE", "PROJECT", "LAST LOGIN", "FULL NAME", ""),
        lambda user: (
            user.name,
            user.role,
            user.default_project,
            ""
            if user.last_login_at is None
            else f"{output.format_elapsed(user.last_login_at)} ago",
            user.display_name,
            "disabled" if user.disabled else "",
        ),
    )


@users.command("create", epilog=examples("aitne admin user create ada --display-name 'Ada L.'"))
def user_create(
    name: UserName,
    display_name: Annotated[str | None, typer.Option("--display-name", help="Full name.")] = None,
    mail: Annotated[
        str | None, typer.Option("--mail", metavar="ADDRESS", help="Address for notifications.")
    ] = None,
    role: Annotated[str, typer.Option("--role", metavar="user|admin", help="The role.")] = "user",
    project: Annotated[
        str | None, typer.Option("--project", help="The default project; created if missing.")
    ] = None,
    password_stdin: PasswordStdin = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Create an account.

    Without --password-stdin it has no password: set one later with `passwd`, or create a token for
    it.
    """
    user = make_client(url, data_dir).users.create(
        name,
        password=_password_from_stdin() if password_stdin else None,
        display_name=display_name,
        mail=mail,
        role=role,
        default_project=project,
    )
    return _print_user(user, "created", as_json=as_json)


@users.command("disable")
def user_disable(
    name: UserName,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Disable an account. Its sessions end, its jobs continue."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Disable the account {name}?")
    return _print_user(client.users.change(name, disabled=True), "disabled", as_json=as_json)


@users.command("enable")
def user_enable(
    name: UserName, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Enable a disabled account again."""
    client = make_client(url, data_dir)
    return _print_user(client.users.change(name, disabled=False), "enabled", as_json=as_json)


@users.command("passwd")
def user_passwd(
    name: UserName,
    password_stdin: PasswordStdin = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Set an account's password.

    It is read from the terminal. Your own requires the current one too, if you have one; with
    --password-stdin that is the second line.
    """
    client = make_client(url, data_dir)
    is_own = client.me().user.name == name
    changes = {"password": _password_from_stdin() if password_stdin else _ask_new_password()}
    if is_own:
        current = (
            _password_from_stdin() if password_stdin else _ask_hidden("Current password, if any: ")
        )
        if current:
            changes["current_password"] = current
    return _print_user(client.users.change(name, **changes), "new password", as_json=as_json)


def _format_value(field: str, value: object) -> object:
    return "password" if field == "source" and value is None else value or ""


def _print_user(user: User, what: str, *, as_json: bool) -> int:
    return output.print_done(as_json, user.raw, f"{user.name}: {what}.")


def _password_from_stdin() -> str:
    return sys.stdin.readline().rstrip("\n")


def _ask_new_password() -> str:
    from aitne.core.errors import InvalidInput

    first = _ask_hidden("New password: ")
    if _ask_hidden("Repeat the password: ") != first:
        raise InvalidInput("The two passwords differ. Nothing was changed.")
    return first


def _ask_hidden(question: str) -> str:
    from getpass import getpass

    from aitne.core.errors import InvalidInput

    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal for a password prompt: pass --password-stdin.")
    return getpass(question)
