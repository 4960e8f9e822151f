"""Registration of the commands that the modules in ``commands`` define.

``scripts/gen_commands.py`` writes the registered commands to ``command_table.py``, from which the help and
the shell completion are made without importing those modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import getdoc
from typing import Any, Literal, NamedTuple, TypeVar

import typer
import typer.core

WORK, LOOK, OPERATE = "Work", "Look", "Operate"
"""Titles of the sections of `aitne --help`."""

ORDER = (
    *("session", "ranks", "open", "extend", "keep", "apply", "batch", "plan", "import", "attach"),
    *("ssh-config", "ssh-proxy", "get", "resubmit", "hold", "release", "throttle", "stop", "rm"),
    *("ps", "logs", "show", "watch", "snapshot", "compare", "sweep", "profile"),
    *("template", "node", "topology", "image", "dataset", "secret", "project", "usage"),
    *("announce", "notifications", "webhook", "storage"),
    *("up", "down", "restart", "status", "login", "account", "admin", "dev"),
    *("admin setup", "admin doctor", "admin accept", "admin health", "admin settings"),
    *("admin backup", "admin verify", "admin restore", "admin upgrade", "admin bundle"),
    *("admin sync", "admin software"),
    *("admin user", "admin token", "admin project", "admin member", "admin node"),
    *("admin topology", "admin image", "admin audit", "admin ca", "admin maintenance"),
)
"""Order of the commands in the help. Commands that are not listed here follow alphabetically."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

MARKUP: Literal["rich", None] = "rich" if sys.stdout.isatty() else None
"""Style of the help: boxes and colours on a terminal, otherwise plain text."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Registration(NamedTuple):
    """Registered command or group, with the module that defines it and its section of the help."""

    app: typer.Typer
    module: str
    section: str | None


registered: dict[str, Registration] = {}
"""Registered commands and groups by their words on the command line, such as ``admin user``. Only
modules that have been imported are included."""


def command(
    words: str,
    section: str | None = None,
    *,
    example: str,
    kind: type[typer.core.TyperCommand] | None = None,
) -> Callable[[Function], Function]:
    """Register a function as the command ``aitne WORDS``, with examples at the end of its help.

    The first line of its docstring is the summary. ``section`` is the section of `aitne --help`,
    for commands of one word, and ``kind`` a class that reads the command line in another way.
    """

    def register(function: Function) -> Function:
        app = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
        name = words.rpartition(" ")[2]
        app.command(name, cls=kind, epilog=examples(example), context_settings=CONTEXT)(function)
        _add_command(words, app, function, section)
        return function

    return register


def group(
    words: str,
    section: str | None = None,
    *,
    summary: str | None = None,
    example: str | None = None,
    alone: bool = False,
) -> Callable[[Callable[..., Any]], typer.Typer]:
    """Register a function as the group of commands that begin with ``aitne WORDS``.

    The help of the group is ``summary``, or else the function's docstring. The decorated name has
    Typer's ``command`` for the commands of the group. With ``alone``, ``aitne WORDS`` is a command
    too, which calls the function.
    """

    def register(function: Callable[..., Any]) -> typer.Typer:
        app = typer.Typer(
            add_completion=False,
            rich_markup_mode=MARKUP,
            context_settings=CONTEXT,
            epilog=None if example is None else examples(example),
        )
        app.callback(help=summary or getdoc(function), invoke_without_command=alone)(function)
        _add_command(words, app, function, section)
        return app

    return register


def examples(text: str) -> str:
    """Return examples as the end of a command's help, keeping their line breaks."""
    lines = text.strip().splitlines()
    if MARKUP is None:
        # Click wraps paragraphs unless they begin with this character.
        return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    return "\n\n".join(["Examples:", *lines])


def _add_command(
    words: str, app: typer.Typer, function: Callable[..., Any], section: str | None
) -> None:
    if words in registered:
        raise ValueError(f"`aitne {words}` is defined in {registered[words].module} already.")
    registered[words] = Registration(app, function.__module__, section)
