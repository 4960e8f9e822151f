"""``login``: log in to a remote platform and store a token for later commands."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import OPERATE, command
from aitne.cli.shared_options import Json
from aitne.client import Client, credentials
from aitne.client.api_session import ApiSession
from aitne.client.login import begin_device_login, create_token_by_password, wait_for_device_token
from aitne.client.platform_discovery import Platform
from aitne.core.errors import InvalidInput

STDIN = "-"


@command(
    "login",
    OPERATE,
    example="""
aitne login https://cluster.example.org
aitne login https://cluster.example.org --user ada
aitne login https://cluster.example.org --token - < token-file
""",
)
def login(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="Such as https://cluster.example.org.")
    ],
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", help="Your login name, to log in with the password."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option("--token", help="A personal access token; - reads it from standard input."),
    ] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    code: Annotated[
        str | None,
        typer.Option("--code", help="Code of your second factor; asked for if it is required."),
    ] = None,
    expires: Annotated[
        str,
        typer.Option(
            "--expires", help="With a password: how long the login lasts, such as 90d; or never."
        ),
    ] = "90d",
    ca_file: Annotated[
        str | None,
        typer.Option(
            "--ca-file",
            metavar="FILE",
            help="Certificates (PEM) of CAs to trust for this platform; kept for later commands.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Log in to a platform and remember it.

    Shows a code to confirm in the portal, in any browser in which you are logged in. With --user it
    asks for the password instead. A token for this machine is created and kept in
    ~/.config/aitne/credentials.json, readable only by you. The platform of the last login is used
    unless another one is named or runs on this machine.
    """
    url = credentials.normalize_url(address)
    ca_file = str(Path(ca_file).absolute()) if ca_file else credentials.find_ca_file(url)
    token_name = f"aitne login on {socket.gethostname()}"
    if token == STDIN:
        token = sys.stdin.readline().strip()
    if token is None and (user or password_stdin):
        token = create_token_by_password(
            url,
            user or _ask_question("Name: "),
            sys.stdin.readline().rstrip("\n") if password_stdin else _ask_password(),
            token_name=token_name,
            expires_in=None if expires == "never" else expires,
            code=lambda: code or _ask_question("Code of your second factor: "),
            ca_file=ca_file,
        )
    if token is None:
        token = _wait_for_confirmed_token(
            ApiSession(Platform(url, None, ca_file=ca_file)), token_name
        )
    me = Client(platform=Platform(url, token, ca_file=ca_file)).me()
    credentials.store_token(url, token, me.user.name, ca_file=ca_file)
    return output.print_done(
        as_json,
        {"url": url, "user": me.user.name},
        f"Logged in to {me.platform.title} at {url} as {me.user.name}.",
    )


def _wait_for_confirmed_token(session: ApiSession, token_name: str) -> str:
    """Show the user a code, wait until it is confirmed in the portal, and return the access
    token."""
    codes = begin_device_login(session, token_name)
    output.print_message(
        f"Open {codes.verification_uri}\n"
        f"and enter the code {codes.user_code}\n"
        f"It expires in {output.format_duration(codes.expires_in)}. Waiting for the confirmation ..."
    )
    return wait_for_device_token(session, codes)


def _require_terminal() -> None:
    if not sys.stdin.isatty():
        raise InvalidInput(
            "There is no terminal for a prompt: pass --user with --password-stdin, or --token -."
        )


def _ask_question(question: str) -> str:
    _require_terminal()
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _ask_password() -> str:
    from getpass import getpass

    _require_terminal()
    return getpass("Password: ")
