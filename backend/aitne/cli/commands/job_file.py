"""``apply``, ``plan`` and ``import``: job files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect
from aitne.cli.options import DataDir, Json, Url, Wait, Yes
from aitne.cli.registry import WORK, command
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

    A file may contain several job files, separated by ---; then no plans are shown. With --wait the
    log of a job is followed to its end, and the exit status is 1 if the job fails; for a session
    the command waits until it is ready. Ctrl-C leaves it running.

    With --sync the files of a folder are uploaded, and the job runs in a copy of them: in a git
    repository those that git tracks or would add, elsewhere all files, in both cases without those
    that .aitneignore lists. Only files that the platform lacks are uploaded.
    """
    if wait and detach:
        raise InvalidInput("--wait follows the job and --detach leaves it alone: pass only one.")
    from aitne.cli import job_source, submit

    paths = _several(files or [], file_option or [])
    sources = [source for path in paths for source in job_source.read_all(path)]
    if len(sources) > 1 and wait:
        raise InvalidInput("--wait follows one job, and these are several job files.")
    client = connect(url, data_dir)
    if sync is not None:
        for source in sources:
            submit.check_source(source.content)
        digest = submit.upload(client, sync)
        for source in sources:
            source.content["tree"] = digest
    if len(sources) > 1:
        return submit.submit_many(client, sources, yes=yes, as_json=as_json)
    try:
        content = sources[0].content
        submit.submit(client, content, yes=yes, wait=wait, as_json=as_json)
    except InvalidInput as error:
        raise sources[0].locate(error) from error
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
    from aitne.cli import job_source, submit

    source = job_source.read(_only(file, file_option))
    try:
        job_plan = connect(url, data_dir).jobs.plan(source.content)
        if as_json:
            output.answer_json(job_plan.raw)
        elif script:
            sys.stdout.write(job_plan.script)
        else:
            submit.show_plan(job_plan, file=sys.stdout)
        submit.refuse_unfit(job_plan)
    except InvalidInput as error:
        raise source.locate(error) from error
    return 0


@command(
    "import",
    WORK,
    example="""
aitne import job.sbatch
aitne import job.sbatch -o job.aitne.yml
aitne import job.sbatch --submit --yes --wait
aitne import job.sbatch --strict > job.aitne.yml
""",
)
def import_(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="The batch script; - is standard input.")
    ],
    to: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here instead of printing it."),
    ] = None,
    submit: Annotated[
        bool, typer.Option("--submit", help="Submit it: show the plan and ask.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail if the job would run differently than with sbatch."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    yes: Yes = False,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Convert a batch script to a job file.

    The #SBATCH lines become fields and the rest one command, which starts in the current folder, as
    with sbatch. Lines that cannot be converted are listed with the reason; with --strict that is an
    error.
    """
    from aitne.core.jobs.job_yaml import write_job_file
    from aitne.core.jobs.sbatch_import import import_sbatch

    text = _read(script)
    try:
        name = "sbatch" if script == "-" else Path(script).name
        conversion = import_sbatch(text, str(Path.cwd()), name)
    except ValueError as error:
        raise InvalidInput(f"{script}: {error}.") from error
    for note in conversion.notes:
        word = "" if note.changes_execution else " (the job runs the same)"
        output.say(
            f"{script}:{note.line}: {output.plain(note.option)} {output.plain(note.message)}{word}"
        )
    serious = sum(note.changes_execution for note in conversion.notes)
    if strict and serious:
        output.say(f"Nothing was written: {serious} of these would make the job run differently.")
        return 1
    job_yaml = write_job_file(conversion.file)
    if to is not None:
        _write(to, job_yaml, force=force)
    if submit:
        from aitne.cli import submit as submitting

        client = connect(url, data_dir)
        submitting.submit(client, conversion.file, yes=yes, wait=wait, as_json=as_json)
    elif as_json:
        output.answer_json(
            {"file": conversion.file, "notes": [note.model_dump() for note in conversion.notes]}
        )
    elif to is None:
        sys.stdout.write(job_yaml)
    else:
        output.say(f"Wrote {to}. `aitne plan {to}` shows the resulting job.")
    return 0


def _several(arguments: list[str], options: list[str]) -> list[str]:
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


def _only(argument: str | None, option: str | None) -> str:
    """Return the path of the job file, given either as argument or as option. Raises
    ``InvalidInput`` if none or both are given."""
    named = [path for path in (argument, option) if path is not None]
    if len(named) != 1:
        raise InvalidInput("Name one job file, such as job.aitne.yml; - is standard input.")
    return named[0]


def _read(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
        return data.decode()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not text (byte {error.start}): is it a script?") from error


def _write(path: str, text: str, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(path, flags, 0o666), "w") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already: pass --force to overwrite it.") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from error
