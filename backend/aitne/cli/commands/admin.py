"""``admin``: accounts, projects, nodes and tokens."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.commands.accounts import reset_link, reset_second_factor, set_user, unlock
from aitne.cli.commands.administration import audit, health, maintenance, settings
from aitne.cli.commands.certificates import authority
from aitne.cli.commands.images import images
from aitne.cli.commands.nodes import nodes, software
from aitne.cli.commands.projects import members, projects, sync
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Yes, examples, group_app
from aitne.client import Token, User

admin = group_app("Administer the platform: users, projects, nodes.")
users = group_app("Accounts.")
tokens = group_app("Personal access tokens.")
admin.add_typer(users, name="user")
users.command("set", epilog=examples("aitne admin user set ada --source ldap"))(set_user)
users.command("reset-link", epilog=examples("aitne admin user reset-link ada"))(reset_link)
users.command("unlock", epilog=examples("aitne admin user unlock ada"))(unlock)
users.command(
    "reset-second-factor", epilog=examples("aitne admin user reset-second-factor ada --yes")
)(reset_second_factor)
admin.add_typer(tokens, name="token")
admin.add_typer(projects, name="project")
admin.add_typer(members, name="member")
admin.command("sync", epilog=examples("aitne admin sync --yes"))(sync)
admin.add_typer(nodes, name="node")
admin.add_typer(images, name="image", help="Images: build, import, share, verify, collect.")
admin.add_typer(audit, name="audit")
admin.add_typer(authority, name="ca")
admin.add_typer(maintenance, name="maintenance")
admin.command("health", epilog=examples("aitne admin health || echo 'something is down'"))(health)
admin.command("settings", epilog=examples("aitne admin settings --all --json"))(settings)
admin.command("software", epilog=examples("sudo -u owner aitne admin software"))(software)

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The login name.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input.")
]


@users.command("ls")
def user_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List all accounts with role and project."""
    accounts = list(connect(url, data_dir).users.list())
    return output.listing(
        as_json,
        accounts,
        ("NAME", "ROLE", "PROJECT", "FULL NAME", ""),
        lambda user: (
            user.name,
            user.role,
            user.default_project,
            user.display_name,
            "disabled" if user.disabled else "",
        ),
    )


@users.command("create", epilog=examples("aitne admin user create ada --display-name 'Ada L.'"))
def user_create(
    name: UserName,
    display_name: Annotated[str | None, typer.Option("--display-name", help="Full name.")] = None,
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
    user = connect(url, data_dir).users.create(
        name,
        password=_password_from_stdin() if password_stdin else None,
        display_name=display_name,
        role=role,
        default_project=project,
    )
    return _answer_user(user, "created", as_json=as_json)


@users.command("disable")
def user_disable(
    name: UserName,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Disable an account. Its sessions end, its jobs continue."""
    client = connect(url, data_dir)
    if not yes:
        output.confirm(f"Disable the account {name}?")
    return _answer_user(client.users.change(name, disabled=True), "disabled", as_json=as_json)


@users.command("enable")
def user_enable(
    name: UserName, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Enable a disabled account again."""
    client = connect(url, data_dir)
    return _answer_user(client.users.change(name, disabled=False), "enabled", as_json=as_json)


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
    client = connect(url, data_dir)
    is_own = client.me().user.name == name
    changes = {"password": _password_from_stdin() if password_stdin else _new_password()}
    if is_own:
        current = _password_from_stdin() if password_stdin else _ask("Current password, if any: ")
        if current:
            changes["current_password"] = current
    return _answer_user(client.users.change(name, **changes), "new password", as_json=as_json)


@tokens.command(
    "create", epilog=examples("aitne admin token create --user ada --name ci --expires 90d --json")
)
def token_create(
    name: Annotated[str, typer.Option("--name", help="Name of the token.")],
    user: Annotated[str | None, typer.Option("--user", help="Owner; unset: you.")] = None,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="read|write|admin", help="May be repeated; unset: read and write."
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", help="Validity, such as 30d; or never.")
    ] = "30d",
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Create a token and print it, only once."""
    made = connect(url, data_dir).tokens.create(
        name,
        user=user,
        scopes=scopes or ("read", "write"),
        expires_in=None if expires == "never" else expires,
    )
    if as_json:
        output.answer_json(made.raw)
    else:
        output.answer(made.token or "")
    return 0


@tokens.command("ls")
def token_ls(
    user: Annotated[str | None, typer.Option("--user", help="Owner; unset: you.")] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List tokens, without their secrets."""
    user_tokens = connect(url, data_dir).tokens.list(user=user)
    return output.listing(
        as_json,
        user_tokens,
        ("ID", "USER", "NAME", "SCOPES", "EXPIRES", "LAST USED", "CREATED BY"),
        _row,
    )


@tokens.command("revoke")
def token_revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="An id from `token ls`.")],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Revoke a token at once."""
    client = connect(url, data_dir)
    if not yes:
        output.confirm(f"Revoke token {token_id}?")
    client.tokens.revoke(token_id)
    return output.done(as_json, {"id": token_id, "revoked": True}, f"Token {token_id} is revoked.")


def _row(token: Token) -> tuple[str, ...]:
    return (
        token.id,
        token.owner,
        token.name,
        " ".join(sorted(token.scopes)),
        "never" if token.expires_at is None else f"{token.expires_at.astimezone():%Y-%m-%d %H:%M}",
        "" if token.last_used_at is None else f"{output.since(token.last_used_at)} ago",
        token.created_by or token.owner,
    )


def _answer_user(user: User, what: str, *, as_json: bool) -> int:
    return output.done(as_json, user.raw, f"{user.name}: {what}.")


def _password_from_stdin() -> str:
    return sys.stdin.readline().rstrip("\n")


def _new_password() -> str:
    from aitne.core.errors import InvalidInput

    first = _ask("New password: ")
    if _ask("Repeat the password: ") != first:
        raise InvalidInput("The two passwords differ. Nothing was changed.")
    return first


def _ask(question: str) -> str:
    from getpass import getpass

    from aitne.core.errors import InvalidInput

    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal for a password prompt: pass --password-stdin.")
    return getpass(question)


apps = {"admin": admin}
