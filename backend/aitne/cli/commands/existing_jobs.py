"""``ps``, ``logs``, ``watch``, ``show``, ``profile`` and ``stop``: existing jobs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from aitne.cli import completion, output
from aitne.cli.command_registry import LOOK, WORK, command
from aitne.cli.job_lookup import find_job, find_unfinished, make_client
from aitne.cli.shared_options import DataDir, JobArgument, Json, Url, Yes
from aitne.client.record_base import LIVE
from aitne.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aitne.client import Client, Job


class Sort(StrEnum):
    """Keys by which a list of jobs can be sorted."""

    CREATED = "created"
    STARTED = "started"
    ENDED = "ended"
    DURATION = "duration"
    NAME = "name"
    OWNER = "owner"
    PROJECT = "project"
    STATE = "state"
    GPUS = "gpus"


@command(
    "ps",
    LOOK,
    example="""
aitne ps
aitne ps --all --json
aitne ps --state FAILED --user ada
aitne ps --all --since 2026-01-01 --sort duration --limit 20
""",
)
def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also ended jobs.")] = False,
    owner: Annotated[
        str | None, typer.Option("--user", "-u", help="Only jobs of this user.")
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            help="Only jobs of this project.",
            autocompletion=completion.complete_projects,
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="job|session", help="Only jobs, or sessions.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            metavar="platform|outside",
            help="Only jobs of the platform, or those submitted with Slurm commands, such as sbatch.",
        ),
    ] = None,
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Only this state; may be repeated.")
    ] = None,
    search: Annotated[str | None, typer.Option("--name", help="Part of the name.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also the tasks of array jobs.")] = False,
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            help="Only from this template.",
            autocompletion=completion.complete_templates,
        ),
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="Only in this image.")] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Only jobs that ran on this node.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DATE", help="Only created from then on: 2026-01-31."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Only created before then.")
    ] = None,
    sort: Annotated[
        Sort | None, typer.Option("--sort", help="Sort key.", show_choices=True)
    ] = None,
    ascending: Annotated[bool, typer.Option("--asc", help="Ascending order.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Maximum number.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--most", min=1, hidden=True, help="Deprecated name of --limit.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List jobs and sessions, newest first.

    Without --all: pending and running ones, and the last ten that ended.
    """
    from aitne.cli.views import job_table

    if most is not None:  # until 0.3
        output.print_message("--most is deprecated and will be removed in 0.3. Use --limit.")
        limit = most
    more = {
        "template": template,
        "image": image,
        "node": node,
        "origin": origin,
        "created_from": _parse_time(since, "--since"),
        "created_before": _parse_time(before, "--before"),
    }
    return job_table.ps(
        everything=everything,
        owner=owner,
        project=project,
        kind=kind,
        states=states,
        search=search,
        tasks=tasks,
        more={key: text for key, text in more.items() if text is not None},
        sort=sort.value if sort else None,
        ascending=ascending,
        limit=limit,
        as_json=as_json,
        url=url,
        data_dir=data_dir,
    )


def _parse_time(text: str | None, option: str) -> str | None:
    """Return a date or time of the option ``option`` as ISO text with a time zone, by default the
    local one; None for None. Raises ``InvalidInput`` if it is neither."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError as error:
        raise InvalidInput(
            f"{option} {text!r} is not a date: write 2026-01-31 or 2026-01-31T14:00."
        ) from error


@command(
    "logs",
    LOOK,
    example="""
aitne logs -f 1a2b3c4d
aitne logs my-training --tail 20
""",
)
def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the job has ended.")
    ] = False,
    task: Annotated[
        int | None, typer.Option("--task", min=0, help="The index of an array job's task.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Only the last N lines.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Print the log of a job.

    Stdout and stderr are merged, byte for byte. With --follow reading continues until the job has
    ended, also while the platform restarts.
    """
    from aitne.cli.views import job_log

    return job_log.logs(job=job, follow=follow, task=task, tail=tail, url=url, data_dir=data_dir)


@command("watch", LOOK, example="aitne watch 1a2b3c4d")
def watch(
    job: JobArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Watch a job until it ends, or a session until it is ready.

    Ctrl-C detaches and leaves it running. The exit status is 1 if the job fails.
    """
    from aitne.cli import job_following, job_submission

    client = make_client(url, data_dir)
    record = job_submission.follow_job(client, find_job(client, job), as_json=as_json)
    if as_json:
        output.print_json(record.raw)
    elif record.is_session and not record.ended:
        output.print_line(record.url or "")
    job_following.check_succeeded(record)
    return 0


@command(
    "show",
    LOOK,
    example="""
aitne show my-training
aitne show 1a2b3c4d --json
""",
)
def show(job: JobArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show a job: state, reason why it is pending or failed, advice."""
    from aitne.cli.views import job_summary

    client = make_client(url, data_dir)
    record = find_job(client, job)
    advice = client.jobs.advice(record.id) if record.state == "QUEUED" else []
    failure = client.jobs.failure(record.id) if record.ended and not record.ok else None
    if as_json:
        explained = None if failure is None else failure.raw
        hints = [hint.raw for hint in advice]
        output.print_json({**record.raw, "advice": hints, "failure": explained})
    else:
        job_summary.print_job(record, advice, failure)
    return 0


@command(
    "profile",
    LOOK,
    example="""
aitne profile my-training
aitne profile 1a2b3c4d --json
""",
)
def profile(
    job: JobArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Show the communication profile of a job's ranks.

    Shows which part of a step is communication, which part of that overlaps with computation,
    the ranks that others wait for, and a row for each message size. The runtime aitne_train
    reports it while the job runs.
    """
    from aitne.cli.views import job_profile

    client = make_client(url, data_dir)
    report = client.jobs.profile(find_job(client, job).id)
    if as_json:
        output.print_json(report)
    else:
        job_profile.print_profile(report)
    return 0


@command(
    "stop",
    WORK,
    example="""
aitne stop 1a2b3c4d
aitne stop my-training my-notebook --yes --wait
aitne stop --all --state QUEUED --name sweep
""",
)
def stop(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB...",
            help="Ids, their first 4 or more characters, or names.",
            autocompletion=completion.complete_unfinished_jobs,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All your own waiting and running jobs.")
    ] = False,
    search: Annotated[
        str | None, typer.Option("--name", help="With --all: only with this in the name.")
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", help="With --all: only in this state; may be repeated."),
    ] = None,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they have ended.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Cancel jobs and stop sessions.

    A job that has ended does not change.
    """
    from aitne.cli.views.job_table import print_jobs

    if bool(jobs) == everything:
        raise InvalidInput("Name jobs by their ids or names, or pass --all.")
    client = make_client(url, data_dir)
    if everything:
        chosen: Iterable[Job] = client.jobs.list(
            owner=client.me().user.name,
            states=[state.upper() for state in states or LIVE],
            search=search,
            top_level=True,
        )
    else:
        chosen = (find_unfinished(client, name) for name in jobs or ())
    selected = {job.id: job for job in chosen}
    live = [job for job in selected.values() if not job.ended]
    if live and not yes:
        print_jobs(live)
        output.require_confirmation("End this?" if len(live) == 1 else f"End these {len(live)}?")
    if everything:
        return _stop_all(client, live, wait=wait, as_json=as_json)
    for job in live:
        end = client.sessions.stop if job.is_session else client.jobs.cancel
        selected[job.id] = end(job.id)
    if wait:
        selected = {job_id: client.jobs.wait(job_id) for job_id in selected}
    if as_json:
        output.print_json([job.raw for job in selected.values()])
        return 0
    for job in selected.values():
        how = "had ended" if job not in live and job.ended else "ends"
        output.print_message(
            f"{job.short_id} {output.to_single_line(job.name, 60)}: {job.state if job.ended else how}"
        )
    return 0


def _stop_all(client: Client, live: Sequence[Job], *, wait: bool, as_json: bool) -> int:
    """Cancel many jobs with few requests, and print the outcome for each. ``wait``: wait until they
    have ended. Return the exit status."""
    results = [
        result
        for start in range(0, len(live), 1_000)
        for result in client.jobs.cancel_many([job.id for job in live[start : start + 1_000]])
    ]
    if wait:
        for job in live:
            client.jobs.wait(job.id)
    if as_json:
        output.print_json(results)
        return 0
    short_ids = {job.id: job.short_id for job in live}
    for result in results:
        if result["outcome"] != "asked":
            output.print_message(
                f"{short_ids[result['id']]} {output.to_single_line(result['name'] or '', 60)}: "
                f"{result['reason']}"
            )
    count = sum(result["outcome"] == "asked" for result in results)
    output.print_message("No jobs are running or waiting." if not live else f"{count} end.")
    return 0
