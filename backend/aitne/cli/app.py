"""The Typer application. Its verbs are imported when they are used."""

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
aitne up --detach                            start a platform here
aitne session start jupyterlab --yes --wait  a notebook
aitne apply -f job.aitne.yml --wait          a batch job, to its end
aitne ps                                     running and waiting jobs
aitne ps --help                              the options of a verb
"""


class LazyCommand(typer.core.TyperCommand):
    """Command of the CLI whose implementation is imported only when the command is used."""

    def __init__(self, name: str) -> None:
        _, panel, summary = VERBS[name]
        super().__init__(name, help=summary, rich_help_panel=panel, rich_markup_mode=MARKUP)

    def load(self) -> Any:
        """Import and return the verb's own command."""
        module = import_module(f"aitne.cli.commands.{VERBS[str(self.name)][0]}")
        return typer.main.get_command(module.apps[self.name])

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Return the context of the imported verb. Typer calls this for the verb that was typed."""
        return self.load().make_context(*arguments, **options)


def _version(value: bool) -> None:
    if value:
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
    """Return the whole command line, ready to run."""
    app = typer.Typer(
        name="aitne",
        help=root.__doc__,
        rich_markup_mode=MARKUP,
        context_settings=CONTEXT,
    )
    app.callback(epilog=examples(EXAMPLES))(root)
    group: Any = typer.main.get_command(app)
    for name in VERBS:
        group.add_command(LazyCommand(name))
    return group
