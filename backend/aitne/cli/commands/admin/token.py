"""``admin token``: personal access tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes
from aitne.client import Token


@group("admin token", summary="Personal access tokens.")
def tokens() -> None:
    """Group the commands for personal access tokens."""


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
    """Create a token and print its secret, which is shown only once."""
    made = make_client(url, data_dir).tokens.create(
        name,
        user=user,
        scopes=scopes or ("read", "write"),
        expires_in=None if expires == "never" else expires,
    )
    if as_json:
        output.print_json(made.raw)
    else:
        output.print_line(made.token or "")
    return 0


@tokens.command("ls")
def token_ls(
    user: Annotated[str | None, typer.Option("--user", help="Owner; unset: you.")] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List tokens, without their secrets."""
    user_tokens = make_client(url, data_dir).tokens.list(user=user)
    return output.print_list(
        as_json,
        user_tokens,
        ("ID", "USER", "NAME", "SCOPES", "EXPIRES", "LAST USED", "CREATED BY"),
        _make_row,
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
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Revoke token {token_id}?")
    client.tokens.revoke(token_id)
    return output.print_done(
        as_json, {"id": token_id, "revoked": True}, f"Token {token_id} is revoked."
    )


def _make_row(token: Token) -> tuple[str, ...]:
    return (
        token.id,
        token.owner,
        token.name,
        " ".join(sorted(token.scopes)),
        "never" if token.expires_at is None else f"{token.expires_at.astimezone():%Y-%m-%d %H:%M}",
        "" if token.last_used_at is None else f"{output.format_elapsed(token.last_used_at)} ago",
        token.created_by or token.owner,
    )
