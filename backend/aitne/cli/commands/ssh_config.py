"""``ssh-config`` and ``ssh-proxy``: access to running jobs with OpenSSH's programs."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Url, Yes


@command(
    "ssh-config",
    WORK,
    example="""
aitne ssh-config --write
ssh my-training.aitne
rsync -a results my-training.aitne:
""",
)
def ssh_config(
    write: Annotated[
        bool, typer.Option("--write", help="Write it, and include it in ~/.ssh/config.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Let ssh, scp, rsync and editors reach your running jobs as JOB.aitne.

    Prints the lines for ~/.ssh/config. Their key is created here; a job accepts it for one
    connection at a time. Each job authenticates itself with a host key that is sent over the
    platform's own connection.
    """
    from aitne.cli import openssh_config

    client = make_client(url, data_dir)
    text = openssh_config.make_config(client)
    if not write:
        output.print_line(text.rstrip("\n"))
        return 0
    plan = openssh_config.plan_changes(text)
    if plan.descriptions and not yes:
        output.print_message("\n".join(plan.descriptions))
        output.require_confirmation("Write this?")
    plan.write_files()
    output.print_message(
        "`ssh JOB.aitne` reaches a running job by its name or the beginning of its id."
    )
    return 0


@command("ssh-proxy", WORK, example="aitne ssh-proxy my-training.aitne")
def ssh_proxy(
    host: Annotated[str, typer.Argument(metavar="HOST", help="JOB.aitne, or NODE.JOB.aitne.")],
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Forward one SSH connection to a running job. The lines of `aitne ssh-config` call it."""
    from aitne.cli import openssh_config

    return openssh_config.run_proxy(make_client(url, data_dir), host)
