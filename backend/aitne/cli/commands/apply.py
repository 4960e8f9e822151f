"""``apply`` and ``plan``: job files."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Wait, Yes
from aitne.core.errors import InvalidInput

FilesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="FILE...", help="Job files; - is standard input.")
]
FilesOption = Annotated[
    list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="The same, as an option.")
]
FileArgument = Annotated[
    str | None, typer.Argument(metavar="FILE", help="The job file; - is standard input.")
]
FileOption = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="The same, as an option.")
]


@command(
    "apply",
    WORK,
    example="""
aitne apply job.aitne.yml                  ask, submit, return
aitne apply job.aitne.yml --yes --wait     submit and follow to the end
aitne apply job.aitne.yml --yes --json     submit; the job as JSON
aitne apply job.aitne.yml --sync .         run it in a copy of this folder
aitne apply job.sbatch --sync .            the same with a batch script for sbatch
aitne apply *.aitne.yml --yes              submit many; one ID in each line
""",
)
def apply(
    files: FilesArgument = None,
    file_option: FilesOption = None,
    sync: Annotated[
        str | None,
        typer.Option(
            "--sync",
            metavar="DIR",
            help="Upload the files of DIR and run the job in a copy of them.",
        ),
    ] = None,
    yes: Yes = False,
    wait: Wait = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it is submitted (the default).")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Submit job files: show the plan, ask, submit.

    A file may contain several job files, separated by ---; then no plans are shown. A batch script
    for sbatch is converted, as by `aitne import`. With --wait the
    log of a job is followed to its end, and the exit status is 1 if the job fails; for a session
    the command waits until it is ready. Ctrl-C leaves it running.

    With --sync the files of a folder are uploaded, and the job runs in a copy of them: in a git
    repository those that git tracks or would add, elsewhere all files, in both cases without those
    that .aitneignore lists. Only files that the platform lacks are uploaded.
    """
    if wait and detach:
        raise InvalidInput("--wait follows the job and --detach leaves it alone: pass only one.")
    from aitne.cli import job_file_reader, job_submission

    paths = _list_job_files(files or [], file_option or [])
    sources = [
        source for path in paths for source in job_file_reader.read_job_files(path, synced=sync)
    ]
    if len(sources) > 1 and wait:
        raise InvalidInput("--wait follows one job, and these are several job files.")
    client = make_client(url, data_dir)
    if sync is not None:
        for source in sources:
            job_submission.check_synced_source(source, sync)
        digest = job_submission.upload_tree(client, sync)
        for source in sources:
            source.content["tree"] = digest
    if len(sources) > 1:
        return job_submission.submit_job_files(client, sources, yes=yes, as_json=as_json)
    try:
        content = sources[0].content
        job_submission.submit_job_file(client, content, yes=yes, wait=wait, as_json=as_json)
    except InvalidInput as error:
        raise sources[0].with_lines(error) from error
    return 0


@command(
    "plan",
    WORK,
    example="""
aitne plan job.aitne.yml
aitne plan job.aitne.yml --script
""",
)
def plan(
    file: FileArgument = None,
    file_option: FileOption = None,
    script: Annotated[bool, typer.Option("--script", help="Print the exact batch script.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the job that a job file would create.

    Nothing is submitted.
    """
    from aitne.cli import job_file_reader, job_submission

    source = job_file_reader.read_job_file(_get_job_file(file, file_option))
    try:
        job_plan = make_client(url, data_dir).jobs.plan(source.content)
        if as_json:
            output.print_json(job_plan.raw)
        elif script:
            sys.stdout.write(job_plan.script)
        else:
            job_submission.print_plan(job_plan, file=sys.stdout)
        job_submission.check_plan_fits(job_plan)
    except InvalidInput as error:
        raise source.with_lines(error) from error
    return 0


def _list_job_files(arguments: list[str], options: list[str]) -> list[str]:
    """Return the job files. Raises ``InvalidInput`` if there is none, or for a command."""
    paths = [*arguments, *options]
    if not paths or paths.count("-") > 1:
        raise InvalidInput("Name a job file, such as job.aitne.yml; - is standard input.")
    if len(arguments) > 1 and arguments[0] != "-" and not os.path.exists(arguments[0]):
        raise InvalidInput(
            f"{arguments[0]} does not exist. This submits job files; write a command there: "
            f"`commands: {' '.join(arguments)}`."
        )
    return paths


def _get_job_file(argument: str | None, option: str | None) -> str:
    """Return the path of the job file, given either as argument or as option. Raises
    ``InvalidInput`` if none or both are given."""
    named = [path for path in (argument, option) if path is not None]
    if len(named) != 1:
        raise InvalidInput("Name one job file, such as job.aitne.yml; - is standard input.")
    return named[0]
