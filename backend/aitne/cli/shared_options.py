"""Options that several commands share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from aitne.cli import completion

_WHICH = "Which platform"

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
        metavar="JOB",
        help="An id, its first 4 or more characters, or a name: the newest job with it.",
        autocompletion=completion.complete_jobs,
    ),
]
UnfinishedJobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="An id, its first 4 or more characters, or a name: the newest job with it that has not "
        "ended.",
        autocompletion=completion.complete_unfinished_jobs,
    ),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="An id, its first 4 or more characters, or a name: the newest session with it.",
        autocompletion=completion.complete_sessions,
    ),
]
ProjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="PROJECT", help="The project.", autocompletion=completion.complete_projects
    ),
]
MemberArgument = Annotated[str, typer.Argument(metavar="USER", help="The login name.")]
ImageArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME[:VERSION]", help="The image; without a version the newest that is offered."
    ),
]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project", help="Unset: your default.", autocompletion=completion.complete_projects
    ),
]
Cpu = Annotated[int | None, typer.Option("--cpu", help="CPUs.")]
Memory = Annotated[str | None, typer.Option("--memory", help="Such as 16G.")]
Gpu = Annotated[str | None, typer.Option("--gpu", help="A number, or type:number.")]
Nodes = Annotated[int | None, typer.Option("--nodes", help="Nodes.")]
MaxDuration = Annotated[str | None, typer.Option("--max-duration", help="Time limit, such as 4h.")]
Image = Annotated[
    str | None, typer.Option("--image", help="An image; `aitne image ls` lists them.")
]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME[:VERSION]", help="A dataset; may be repeated."),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, for other users.")]
EndDay = Annotated[
    datetime | None,
    typer.Option("--until", formats=["%Y-%m-%d"], metavar="YYYY-MM-DD", help="Its end, in UTC."),
]
