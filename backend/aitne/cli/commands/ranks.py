"""``ranks``: ranks that execute cells of a session's notebook."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from aitne.cli import completion, job_following, job_submission, output
from aitne.cli.command_registry import CONTEXT, WORK, examples, group
from aitne.cli.job_lookup import find_job, find_unfinished, make_client
from aitne.cli.shared_options import DataDir, Json, SessionArgument, Url, Yes
from aitne.client import Client, Job
from aitne.client.api_session import make_idempotency_key


@group("ranks", WORK)
def ranks() -> None:
    """Start, list and release ranks for the notebook of a session."""


@ranks.command(
    "start",
    context_settings=CONTEXT,
    epilog=examples("""
aitne ranks start my-notebook 4 --gpu a100
aitne ranks start my-notebook 16 --nodes 4 --gpu a100 --max-duration 2h --idle 15m
aitne ranks start my-notebook 4 --yes --wait --json
"""),
)
def start(
    session: SessionArgument,
    count: Annotated[int, typer.Argument(metavar="N", min=1, help="Number of ranks in total.")],
    nodes: Annotated[
        int | None, typer.Option("--nodes", help="Nodes that share the ranks; unset: one.")
    ] = None,
    ranks_per_node: Annotated[
        int | None, typer.Option("--ranks-per-node", help="Ranks on each node.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", help="GPUs of each rank: a type, a number, or type:number."),
    ] = None,
    cpu: Annotated[int | None, typer.Option("--cpu", help="CPUs of each rank.")] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Memory of each rank, such as 16G.")
    ] = None,
    max_duration: Annotated[
        str | None, typer.Option("--max-duration", help="Time limit, such as 2h.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option("--idle", help="Time without work after which they end: 15m, or off."),
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", help="Partition of Slurm.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="PATH", help="Python interpreter of the ranks."),
    ] = None,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until they run.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Start ranks for the notebook of a session: show the plan, ask, submit.

    They are a job of its own with the session's project, image and folders. It ends when it is
    released, after --idle without work, or with the session.
    """
    client = make_client(url, data_dir)
    owner = find_unfinished(client, session, sessions=True)
    options: dict[str, Any] = {
        "nodes": nodes,
        "ranks_per_node": ranks_per_node,
        "gpu": gpu,
        "cpu": cpu,
        "memory": memory,
        "max_duration": max_duration,
        "idle": idle,
        "slurm": None if partition is None else {"partition": partition},
        "python": python,
    }
    plan = client.sessions.plan_ranks(owner.id, count, **options)
    job_submission.print_plan(plan, file=sys.stderr)
    job_submission.check_plan_fits(plan)
    if not yes:
        output.require_confirmation("Start these ranks?")
    # One key for all attempts: even if the connection breaks, there is only one group.
    group = client.sessions.start_ranks(owner.id, count, key=make_idempotency_key(), **options)
    output.print_message(f"Submitted {group.short_id} ({output.to_single_line(group.name, 60)}).")
    if wait:
        group = _follow_group(client, owner, group)
    if as_json:
        output.print_json(group.raw)
    else:
        output.print_line(group.id)
    if wait:
        job_following.check_succeeded(group)
    else:
        output.print_message(f"`aitne ranks stop {owner.short_id} {group.short_id}` releases them.")
    return 0


@ranks.command("ls", context_settings=CONTEXT)
def ls(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION",
            help="Its id, the beginning of it, or its name; unset: all sessions.",
            autocompletion=completion.complete_sessions,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also those that ended.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List rank groups that wait or run, newest first."""
    from aitne.cli.views.job_table import print_jobs

    client = make_client(url, data_dir)
    if session is not None:
        owner = find_job(client, session, sessions=True)
        groups = list(client.sessions.ranks(owner.id, live=not everything))
    else:
        jobs = client.jobs.list(type="job", live=not everything, top_level=True)
        groups = [job for job in jobs if job.session_id is not None]
    if as_json:
        output.print_json([group.raw for group in groups])
    elif groups:
        print_jobs(groups)
    else:
        output.print_message(
            "There are no ranks." if everything else "No ranks are running or waiting."
        )
    return 0


@ranks.command(
    "stop",
    context_settings=CONTEXT,
    epilog=examples("""
aitne ranks stop my-notebook
aitne ranks stop my-notebook 1a2b3c4d
"""),
)
def stop(
    session: SessionArgument,
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB", help="The id of one rank group, or its beginning; unset: all of them."
        ),
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Release the ranks of a session; its kernels continue."""
    client = make_client(url, data_dir)
    owner = find_job(client, session, sessions=True)
    group_id = None if group is None else find_job(client, group).id
    released = client.sessions.release_ranks(owner.id, group_id)
    if as_json:
        output.print_json([each.raw for each in released])
    elif released:
        for each in released:
            output.print_message(
                f"{each.short_id} {output.to_single_line(each.name, 60)}: is released"
            )
    else:
        output.print_message(f"{output.to_single_line(owner.name, 60)} has no ranks.")
    return 0


def _follow_group(client: Client, session: Job, group: Job) -> Job:
    """Print the stages of a rank group until its ranks run or it has ended; return its record."""
    try:
        return job_following.follow_until_running(client, group)
    except KeyboardInterrupt:
        output.print_message(
            f"\nDetached; {group.short_id} continues. "
            f"`aitne ranks stop {session.short_id} {group.short_id}` releases it."
        )
        raise
