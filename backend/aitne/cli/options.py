"""Options that several verbs share."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

_WHICH = "Which platform"
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The platform's address.", rich_help_panel=_WHICH),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="The data directory of a platform on this machine.",
        rich_help_panel=_WHICH,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended, or is ready.")]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="An id, its first 4 or more characters, or the name of a live job."
    ),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="An id, its first 4 or more characters, or the name of a live session.",
    ),
]


MARKUP: Literal["rich", None] = "rich" if sys.stdout.isatty() else None
"""Boxes and colours in the help on a terminal; plain text elsewhere."""


def examples(text: str) -> str:
    """Return the epilog of a verb's help, with its lines as they are written."""
    lines = text.strip().splitlines()
    if MARKUP is None:
        # Click wraps paragraphs unless they begin with this character.
        return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    return "\n\n".join(["Examples:", *lines])


def group_app(summary: str) -> typer.Typer:
    """Return an application of several verbs."""
    return typer.Typer(
        add_completion=False,
        help=summary,
        rich_markup_mode=MARKUP,
        context_settings=CONTEXT,
    )


def verb_app(name: str, function: Any, *, example: str) -> typer.Typer:
    """Return an application of one verb, with examples below its help."""
    app = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    app.command(name, epilog=examples(example), context_settings=CONTEXT)(function)
    return app
