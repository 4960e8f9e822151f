"""``attach``: a shell, or a program, in a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli.lookup import connect, find_job
from aitne.cli.options import DataDir, JobArgument, Url, verb_app

Node = Annotated[
    str | None,
    typer.Option("--node", "-n", metavar="NODE", help="One of the job's nodes; unset: its first."),
]


def attach(
    job: JobArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Command to run instead of your shell."),
    ] = None,
    node: Node = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Open a shell, or run a program, in a running job.

    It runs on the job's node, in its folder and container, with its GPUs and variables, and ends
    when the job does. On a terminal, Enter ~ . disconnects. The exit status is the program's.
    """
    from aitne.cli.verbs import terminal as verb

    client = connect(url, data_dir)
    return verb.attach(client, find_job(client, job), command or [], node=node)


apps = {
    "attach": verb_app(
        "attach",
        attach,
        example="""
aitne attach my-training
aitne attach 1a2b3c4d -- nvidia-smi
aitne attach 1a2b3c4d --node gpu04 -- py-spy dump --pid 4711
""",
    )
}
