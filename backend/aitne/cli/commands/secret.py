"""``secret``: values that jobs get as environment variables, and that are never shown."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes


@group("secret", WORK)
def secrets() -> None:
    """Set, list and delete secrets, which jobs get as environment variables."""


SecretName = Annotated[
    str, typer.Argument(metavar="NAME", help="The environment variable, such as WANDB_API_KEY.")
]


@secrets.command(
    "set", epilog=examples("aitne secret set WANDB_API_KEY\naitne secret set HF_TOKEN < token.txt")
)
def secret_set(
    name: SecretName, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Store a secret, or replace its value. The value is read from a prompt or from standard input."""
    client = make_client(url, data_dir)
    if sys.stdin.isatty():
        value = typer.prompt(f"Value of {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().removesuffix("\n")
    secret = client.secrets.put(name, value)
    return output.print_done(
        as_json, secret.raw, f"Secret {secret.name} is stored. Jobs name it in `secrets`."
    )


@secrets.command("ls", epilog=examples("aitne secret ls"))
def secret_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List your secrets. Values are never shown."""
    return output.print_list(
        as_json,
        make_client(url, data_dir).secrets.list(),
        ("NAME", "CHANGED"),
        lambda secret: (secret.name, f"{output.format_elapsed(secret.updated_at)} ago"),
    )


@secrets.command("rm", epilog=examples("aitne secret rm WANDB_API_KEY"))
def secret_rm(
    name: SecretName,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Delete a secret. Running jobs keep its value; jobs that need it and have not started will
    fail."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Delete the secret {name}?")
    client.secrets.delete(name)
    return output.print_done(as_json, {"deleted": name}, f"Secret {name} is deleted.")
