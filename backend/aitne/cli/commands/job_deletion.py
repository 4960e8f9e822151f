"""``rm``: deletion of jobs that have ended."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import completion, output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import find_job, make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aitne.client import Job

MOST = 1_000
"""Maximum number of jobs in one request for deletion."""


@command(
    "rm",
    WORK,
    example="""
aitne rm 1a2b3c4d
aitne rm my-training my-sweep --yes
""",
)
def rm(
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB...",
            help="Ids, their first 4 or more characters, or names.",
            autocompletion=completion.complete_jobs,
        ),
    ],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Delete jobs that have ended, with their logs, metrics and folders.

    A job folder contains the checkpoints that the job wrote to $AITNE_CHECKPOINTS. Their usage is
    still counted. The exit status is 1 if a job was not deleted.
    """
    client = make_client(url, data_dir)
    selected = {job.id: job for job in (find_job(client, name) for name in jobs)}
    if not yes:
        from aitne.cli.views.job_table import print_jobs

        print_jobs(list(selected.values()))
        output.require_confirmation(_make_question(list(selected.values())))
    ids = list(selected)
    results = [
        result
        for start in range(0, len(ids), MOST)
        for result in client.jobs.delete_many(ids[start : start + MOST])
    ]
    if as_json:
        output.print_json(results)
    else:
        for result in results:
            _print_outcome(selected[result["id"]], result)
    return 0 if all(result["outcome"] == "requested" for result in results) else 1


def _make_question(jobs: Sequence[Job]) -> str:
    """Return the question to confirm a deletion, with the number of jobs and the disk space of
    their folders."""
    measured = [job.folder_bytes for job in jobs if job.folder_bytes is not None]
    what = "this job" if len(jobs) == 1 else f"these {len(jobs)} jobs"
    size = f" ({output.format_memory(sum(measured))}" if measured else " ("
    absent = len(jobs) - len(measured)
    size += f"{', ' if measured else ''}{absent} not measured)" if absent else ")"
    return f"Delete {what} with log, metrics and folder{size}? This cannot be undone."


def _print_outcome(job: Job, result: Mapping[str, str | None]) -> None:
    name = f"{job.short_id} {output.to_single_line(job.name, 60)}"
    if result["outcome"] == "requested":
        output.print_message(f"{name}: is deleted")
    else:
        output.print_message(f"{name}: not deleted. {result['reason']}")
