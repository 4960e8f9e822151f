"""``login``: authentication to a remote platform, once."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.options import Json
from aitne.cli.registry import OPERATE, command
from aitne.client import Client, credentials
from aitne.client.discovery import Platform
from aitne.client.login import token_for_password
from aitne.core.errors import InvalidInput

STDIN = "-"


@command(
    "login",
    OPERATE,
    example="""
aitne login https://cluster.example.org
aitne login https://cluster.example.org --token - < token-file
""",
)
def login(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="Such as https://cluster.example.org.")
    ],
    user: Annotated[str | None, typer.Option("--user", "-u", help="Your login name.")] = None,
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
        str, typer.Option("--expires", help="How long the login lasts, such as 90d; or never.")
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

    A token for this machine is created and kept in ~/.config/aitne/credentials.json, readable only
    by you. The platform of the last login is used unless another one is named or runs on this
    machine. If users log in through an identity provider, create a token in the portal and pass it
    with --token -.
    """
    url = credentials.normal_url(address)
    ca_file = str(Path(ca_file).absolute()) if ca_file else credentials.ca_file_for(url)
    if token == STDIN:
        token = sys.stdin.readline().strip()
    if token is None:
        name = user or _ask("Name: ")
        password = sys.stdin.readline().rstrip("\n") if password_stdin else _ask_password()
        token = token_for_password(
            url,
            name,
            password,
            token_name=f"aitne login on {socket.gethostname()}",
            expires_in=None if expires == "never" else expires,
            code=lambda: code or _ask("Code of your second factor: "),
            ca_file=ca_file,
        )
    me = Client(platform=Platform(url, token, ca_file=ca_file)).me()
    credentials.keep(url, token, me.user.name, ca_file=ca_file)
    return output.done(
        as_json,
        {"url": url, "user": me.user.name},
        f"Logged in to {me.platform.title} at {url} as {me.user.name}.",
    )


def _terminal() -> None:
    if not sys.stdin.isatty():
        raise InvalidInput(
            "There is no terminal for a prompt: pass --user with --password-stdin, or --token -."
        )


def _ask(question: str) -> str:
    _terminal()
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _ask_password() -> str:
    from getpass import getpass

    _terminal()
    return getpass("Password: ")
