"""``get``: downloads of the files of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import find_job, make_client
from aitne.cli.shared_options import DataDir, JobArgument, Json, Url

if TYPE_CHECKING:
    from aitne.client import Client, Job
    from aitne.client.downloads import Download

FOLDERS = ("workdir", "checkpoints", "metrics")


@command(
    "get",
    WORK,
    example="""
aitne get 1a2b3c4d
aitne get my-training out/model.pt -o results
aitne get my-training --from checkpoints -o results
aitne get my-training --list
""",
)
def get(
    job: JobArgument,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH...]", help="Files and folders below the job's folder."),
    ] = None,
    to: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="The local folder.")
    ] = ".",
    folder: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Which folder of the job: workdir, checkpoints or metrics.",
        ),
    ] = FOLDERS[0],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace also local files that are newer.")
    ] = False,
    only_list: Annotated[
        bool, typer.Option("--list", "-l", help="List the files instead of downloading them.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Download files of a job, or list them.

    Without PATH: the output files of a job that has ended, which are those that were changed in its
    folder while it ran. A running job's files are downloaded by their paths. Files have the same
    paths below DIR as in the job's folder. An interrupted download resumes where it stopped.
    """
    from aitne.core.errors import InvalidInput

    if folder not in FOLDERS:
        raise InvalidInput.field(
            "--from", "is not a folder of a job", value=folder, allowed=", ".join(FOLDERS)
        )
    client = make_client(url, data_dir)
    record = find_job(client, job)
    names = paths or []
    if not names and folder == FOLDERS[0]:
        _check_listed(record)
    if only_list:
        return _print_entries(client, record, names, folder, as_json)
    from aitne.cli.progress_meter import ProgressMeter

    with ProgressMeter() as meter:
        outcome = client.jobs.download(
            record.id, *names, to=to, folder=folder, replace=replace, heard=meter
        )
    if as_json:
        output.print_json(outcome.raw)
    _print_outcome(outcome, to)
    return 1 if outcome.problems else 0


def _check_listed(job: Job) -> None:
    """Check that the platform can have a list of the job's output files. Raises ``Conflict``."""
    from aitne.core.errors import Conflict

    if job.is_array:
        raise Conflict(
            f"{job.name} is an array, and its tasks have output files: name a task, such as "
            f"{job.short_id}_0, or name files or a folder."
        )
    if not job.ended:
        raise Conflict(
            f"{job.name} has not ended (it is {job.state}); its output files are listed when it "
            f"has. Until then name files or a folder: aitne get {job.short_id} --list ."
        )


def _print_entries(client: Client, job: Job, names: list[str], folder: str, as_json: bool) -> int:
    if not names and folder == FOLDERS[0]:
        from aitne.cli.views import job_runs

        files = client.jobs.files(job.id)
        if as_json:
            output.print_json(files.raw)
        else:
            job_runs.print_files(files)
        return 0
    entries = [
        entry
        for name in names or [""]
        for entry in client.jobs.list_folder(job.id, name, folder=folder)
    ]
    return output.print_list(
        as_json,
        entries,
        ("NAME", "SIZE", "CHANGED"),
        lambda entry: (
            entry.name + ("/" if entry.kind == "folder" else ""),
            output.format_memory(entry.size_bytes) if entry.kind == "file" else entry.kind,
            output.format_time(entry.modified_at),
        ),
    )


def _print_outcome(outcome: Download, to: str) -> None:
    """Print what was downloaded, left out and refused, on stderr."""
    states = [file.state for file in outcome.files]
    fetched = [file for file in outcome.files if file.state == "downloaded"]
    size = output.format_memory(sum(file.size_bytes for file in fetched))
    count = "1 file" if len(fetched) == 1 else f"{len(fetched)} files"
    unchanged = states.count("unchanged")
    more = f"; {unchanged} already here" if unchanged else ""
    output.print_message(f"Downloaded {count} ({size}) to {output.to_single_line(to)}{more}.")
    for file in outcome.files:
        if file.state == "kept":
            output.print_message(
                f"{output.to_single_line(file.local)}: the local file is newer and was kept; --replace "
                "replaces it."
            )
    for path, what in outcome.left_out.items():
        output.print_message(f"{output.to_single_line(path)}: {what}, left out.")
    for path, message in outcome.problems.items():
        output.print_message(f"{output.to_single_line(path)}: {output.to_single_line(message)}")
