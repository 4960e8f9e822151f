"""``hold``, ``release`` and ``throttle``: control when pending jobs start."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import WORK, command
from aitne.cli.job_lookup import find_job, make_client
from aitne.cli.shared_options import DataDir, JobArgument, Json, Url
from aitne.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client import Job


@command(
    "hold",
    WORK,
    example="""
aitne hold my-training
aitne hold 1a2b3c4d_7
""",
)
def hold(job: JobArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Hold a pending job until it is released.

    For an array job this holds all pending tasks, or only the task that is named.
    """
    client = make_client(url, data_dir)
    return _print_job(client.jobs.hold(find_job(client, job).id), "is held", as_json=as_json)


@command("release", WORK, example="aitne release my-training")
def release(
    job: JobArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Release a held job, or the held tasks of an array job."""
    client = make_client(url, data_dir)
    return _print_job(client.jobs.release(find_job(client, job).id), "is released", as_json=as_json)


@command(
    "throttle",
    WORK,
    example="""
aitne throttle my-array 8
aitne throttle my-array none
""",
)
def throttle(
    job: JobArgument,
    max_parallel: Annotated[
        str,
        typer.Argument(metavar="N|none", help="Maximum number of tasks at once; none: no limit."),
    ],
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Set how many tasks of an array job run at once.

    Running tasks continue.
    """
    if max_parallel != "none" and not max_parallel.isdecimal():
        raise InvalidInput(f"{max_parallel!r} is no number of tasks: write one from 1, or none.")
    limit = None if max_parallel == "none" else int(max_parallel)
    client = make_client(url, data_dir)
    changed = client.jobs.throttle(find_job(client, job).id, limit)
    outcome = "has no limit of tasks at once" if limit is None else f"runs {limit} tasks at once"
    return _print_job(changed, outcome, as_json=as_json)


def _print_job(job: Job, outcome: str, *, as_json: bool) -> int:
    if as_json:
        output.print_json(job.raw)
    else:
        output.print_message(f"{job.short_id} {output.to_single_line(job.name, 60)}: {outcome}")
    return 0
