"""The Typer application. Its verbs are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from aitne import __version__
from aitne.cli.options import CONTEXT, MARKUP, DataDir, Url, examples
from aitne.cli.table import VERBS

EXAMPLES = """
aitne up --detach                               start a platform on this machine
aitne session start jupyterlab --yes --wait     a notebook
aitne apply -f job.aitne.yml --wait             a batch job, followed to its end
aitne ps                                        what runs and what waits
aitne ps --help                                 what a verb can do
"""


class LazyGroup(typer.core.TyperGroup):
    """Knows the names of all verbs and imports one when it is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(VERBS)  # type: ignore[assignment]  # names, for suggestions

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs, in the order of the help."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb, imported; None if there is none of this name."""
        if cmd_name not in VERBS:
            return None
        module = import_module(f"aitne.cli.commands.{VERBS[cmd_name]}")
        return typer.main.get_command(module.apps[cmd_name])


def _version(wanted: bool) -> None:
    if wanted:
        print(f"aitne {__version__}")  # noqa: T201
        raise typer.Exit


def root(
    url: Url = None,
    data_dir: DataDir = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Work on a machine-learning cluster: sessions, jobs, and the platform itself."""


def command() -> Any:
    """The whole command line, ready to be run."""
    app = typer.Typer(
        name="aitne",
        cls=LazyGroup,
        help=root.__doc__,
        rich_markup_mode=MARKUP,
        context_settings=CONTEXT,
    )
    app.callback(epilog=examples(EXAMPLES))(root)
    return typer.main.get_command(app)
