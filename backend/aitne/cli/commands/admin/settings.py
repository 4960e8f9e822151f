"""``admin settings``: the settings and where they come from."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url


@command("admin settings", example="aitne admin settings --all --json")
def settings(
    everything: Annotated[bool, typer.Option("--all", help="Also default values.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the settings and the source of each value. Secrets are masked."""
    all_settings = make_client(url, data_dir).admin.settings()
    shown = [setting for setting in all_settings if everything or setting.source != "default"]
    return output.print_list(
        as_json,
        shown,
        ("SETTING", "VALUE", "FROM"),
        lambda setting: (
            setting.name,
            "" if setting.value is None else setting.value,
            setting.location or setting.source.replace("_", " "),
        ),
    )
