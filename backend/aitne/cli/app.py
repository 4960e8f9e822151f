"""The Typer application, whose commands are imported only when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from aitne import __version__
from aitne.cli.command_registry import CONTEXT, MARKUP, examples, registered
from aitne.cli.command_table import COMMANDS
from aitne.cli.shared_options import DataDir, Url

ALIASES = {"run": "apply", "submit": "apply", "cancel": "stop", "kill": "stop", "delete": "rm"}
"""Names of commands that users know from other programs, with the command of this one. The help
does not list them."""

RESERVED = {
    "files": "`aitne files` is reserved for files of users. The output files of a job are listed by "
    "`aitne get JOB --list` and downloaded by `aitne get JOB`."
}
"""Names of commands of earlier or later releases, with the sentence that answers them."""

EXAMPLES = """
aitne up --detach                            start a platform here
aitne session start jupyterlab --yes --wait  a notebook
aitne apply -f job.aitne.yml --wait          a batch job, to its end
aitne ps                                     running and waiting jobs
aitne ps --help                              the options of a verb
"""


class LazyCommand(typer.core.TyperCommand):
    """Command of which only name and summary are known, for the help. Its module is imported when
    it is used."""

    def __init__(self, words: str, *, hidden: bool = False) -> None:
        self.words = words
        self.module, section, summary = COMMANDS[words]
        super().__init__(
            words.rpartition(" ")[2],
            help=summary,
            rich_help_panel=section,
            rich_markup_mode=MARKUP,
            hidden=hidden,
        )

    def load_command(self) -> Any:
        """Import the command and return it; a group also contains the commands that other modules
        define for it."""
        import_module(self.module)
        loaded: Any = typer.main.get_command(registered[self.words].app)
        if hasattr(loaded, "commands"):
            loaded.commands |= _list_commands(self.words)
        return loaded

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Import the command and return its context. Typer calls this method for the command that
        was typed."""
        return self.load_command().make_context(*arguments, **options)


class ReservedCommand(typer.core.TyperCommand):
    """Command that only says which other one to use. The help does not list it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, hidden=True, help=RESERVED[name])

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Raise ``InvalidInput`` with the sentence for this name."""
        from aitne.core.errors import InvalidInput

        raise InvalidInput(RESERVED[str(self.name)])


def _list_commands(group: str) -> dict[str, Any]:
    """Return the commands of a group by name; for an empty ``group``, the commands and groups at
    the top."""
    found: dict[str, Any] = {}
    for words in COMMANDS:
        parent, _, name = words.rpartition(" ")
        if parent == group:
            found[name] = LazyCommand(words)
    return found


def _print_version(value: bool) -> None:
    if value:
        print(f"aitne {__version__}")  # noqa: T201
        raise typer.Exit


def root(
    url: Url = None,
    data_dir: DataDir = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Work on a machine-learning cluster: sessions, jobs, and the platform itself."""


def make_command() -> Any:
    """Return the complete command line as a Typer command."""
    app = typer.Typer(
        name="aitne",
        help=root.__doc__,
        rich_markup_mode=MARKUP,
        context_settings=CONTEXT,
    )
    app.callback(epilog=examples(EXAMPLES))(root)
    group: Any = typer.main.get_command(app)
    group.commands = _list_commands("")
    for alias, words in ALIASES.items():
        group.commands[alias] = LazyCommand(words, hidden=True)
    for name in RESERVED:
        group.commands[name] = ReservedCommand(name)
    return group
