"""``ps``, ``logs``, ``attach`` and ``stop``: jobs that are there."""

from __future__ import annotations

from typing import Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect, find_job
from aitne.cli.options import DataDir, JobArgument, Json, Url, Yes, verb_app


def ps(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also all that have ended.")
    ] = False,
    owner: Annotated[str | None, typer.Option("--user", "-u", help="Only this user's.")] = None,
    project: Annotated[str | None, typer.Option("--project", help="Only this project's.")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="job|session", help="Only jobs, or sessions.")
    ] = None,
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Only this state; may be repeated.")
    ] = None,
    search: Annotated[str | None, typer.Option("--name", help="Part of the name.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Also the tasks of array jobs.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List jobs and sessions, newest first.

    Without --all: those that run or wait, and the last ten that ended.
    """
    from aitne.cli.verbs import ps as verb

    return verb.ps(
        everything=everything,
        owner=owner,
        project=project,
        kind=kind,
        states=states,
        search=search,
        tasks=tasks,
        as_json=as_json,
        url=url,
        data_dir=data_dir,
    )


def logs(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")
    ] = False,
    task: Annotated[
        int | None, typer.Option("--task", min=0, help="The index of an array job's task.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="BYTES", help="Only the last bytes.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Print what a job printed.

    Stdout and stderr merged, byte for byte. With --follow reading goes on until the job has ended, also while the platform restarts.
    """
    from aitne.cli.verbs import logs as verb

    return verb.logs(job=job, follow=follow, task=task, tail=tail, url=url, data_dir=data_dir)


def attach(
    job: JobArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Follow a job to its end, a session until it is ready.

    Ctrl-C detaches and leaves it running. The exit status is 1 if the job fails.
    """
    from aitne.cli import follow, submit

    client = connect(url, data_dir)
    found = submit.attend(client, find_job(client, job), as_json=as_json)
    if as_json:
        output.answer_json(found.raw)
    elif found.is_session and not found.ended:
        output.answer(found.url or "")
    follow.check(found)
    return 0


def stop(
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB...", help="Ids, their first 4 or more characters, or names of live jobs."
        ),
    ],
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they have ended.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """End jobs and sessions.

    One that has ended already stays as it is.
    """
    from aitne.cli.verbs.ps import show

    client = connect(url, data_dir)
    found = {job.id: job for job in (find_job(client, name) for name in jobs)}
    live = [job for job in found.values() if not job.ended]
    if live and not yes:
        show(live)
        output.confirm("End this?" if len(live) == 1 else f"End these {len(live)}?")
    for job in live:
        end = client.sessions.stop if job.is_session else client.jobs.cancel
        found[job.id] = end(job.id)
    if wait:
        found = {job_id: client.jobs.wait(job_id) for job_id in found}
    if as_json:
        output.answer_json([job.raw for job in found.values()])
        return 0
    for job in found.values():
        how = "had ended" if job not in live and job.ended else "ends"
        output.say(f"{job.id[:8]} {output.plain(job.name, 60)}: {job.state if job.ended else how}")
    return 0


apps = {
    "ps": verb_app(
        "ps",
        ps,
        example="""
aitne ps
aitne ps --all --json
aitne ps --state FAILED --user ada
""",
    ),
    "logs": verb_app(
        "logs",
        logs,
        example="""
aitne logs -f 1a2b3c4d
aitne logs my-training --tail 2000
""",
    ),
    "attach": verb_app("attach", attach, example="aitne attach 1a2b3c4d"),
    "stop": verb_app(
        "stop",
        stop,
        example="""
aitne stop 1a2b3c4d
aitne stop my-training my-notebook --yes --wait
""",
    ),
}
