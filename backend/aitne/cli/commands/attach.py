"""``attach``: a shell, or a program, in a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import find_unfinished, make_client
from aitne.cli.shared_options import DataDir, UnfinishedJobArgument, Url

Node = Annotated[
    str | None,
    typer.Option("--node", "-n", metavar="NODE", help="One of the job's nodes; unset: its first."),
]


@command(
    "attach",
    WORK,
    example="""
aitne attach my-training
aitne attach 1a2b3c4d -- nvidia-smi
aitne attach 1a2b3c4d --node gpu04 -- py-spy dump --pid 4711
""",
)
def attach(
    job: UnfinishedJobArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Command to run instead of your shell."),
    ] = None,
    node: Node = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Open a shell, or run a program, in a running job.

    It runs on the job's node, in its folder and container, with its GPUs and environment variables,
    and ends when the job does. On a terminal, Enter ~ . disconnects. The exit status is the
    program's.
    """
    from aitne.cli import remote_terminal

    client = make_client(url, data_dir)
    return remote_terminal.attach_terminal(
        client, find_unfinished(client, job), command or [], node=node
    )
