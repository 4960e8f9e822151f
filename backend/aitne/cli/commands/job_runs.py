"""``snapshot``, ``resubmit``, ``compare`` and ``sweep``: runs of jobs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from aitne.cli import completion, output
from aitne.cli.command_registry import LOOK, WORK, command
from aitne.cli.job_lookup import find_job, make_client
from aitne.cli.shared_options import DataDir, JobArgument, Json, Url, Wait, Yes


@command(
    "snapshot",
    LOOK,
    example="""
aitne snapshot 1a2b3c4d
aitne snapshot 1a2b3c4d --diff | git apply
aitne snapshot 1a2b3c4d --packages > requirements.txt
""",
)
def snapshot(
    job: JobArgument,
    diff: Annotated[bool, typer.Option("--diff", help="Print its uncommitted changes.")] = False,
    packages: Annotated[
        bool, typer.Option("--packages", help="Print its packages, as pip takes them.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the code, environment and host of a job.

    The commit and changes of its folder, the packages of its environment, image, datasets and node.
    """
    from aitne.cli.views import job_runs

    client = make_client(url, data_dir)
    job_snapshot = client.jobs.snapshot(find_job(client, job).id)
    if as_json:
        output.print_json(job_snapshot.raw)
    elif diff:
        job_runs.print_diff(job_snapshot)
    elif packages:
        job_runs.print_packages(job_snapshot)
    else:
        job_runs.print_snapshot(job_snapshot)
    return 0


@command(
    "resubmit",
    WORK,
    example="""
aitne resubmit 1a2b3c4d
aitne resubmit 1a2b3c4d --memory 16G --yes --wait
""",
)
def resubmit(
    job: JobArgument,
    memory: Annotated[str | None, typer.Option("--memory", help="Other memory: 16G.")] = None,
    max_duration: Annotated[
        str | None, typer.Option("--max-duration", help="Another time limit, such as 4h.")
    ] = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Submit a job again: show what has changed, ask, submit."""
    from aitne.cli import job_following, job_submission
    from aitne.cli.views import job_runs
    from aitne.client.api_session import make_idempotency_key

    client = make_client(url, data_dir)
    record = find_job(client, job)
    plan = client.jobs.plan_resubmit(record.id)
    job_runs.print_rerun(plan, file=sys.stderr)
    if not plan.possible and memory is None and max_duration is None:
        from aitne.core.errors import InvalidInput

        raise InvalidInput(
            "It cannot be run again unchanged: "
            + "; ".join(str(problem["message"]) for problem in plan.problems)
        )
    if not yes:
        output.require_confirmation(f"Run {output.to_single_line(record.name, 60)} again?")
    made = client.jobs.resubmit(
        record.id, memory=memory, max_duration=max_duration, key=make_idempotency_key()
    )
    output.print_message(
        f"Submitted {made.type} {made.short_id} ({output.to_single_line(made.name, 60)})."
    )
    if wait:
        made = job_submission.follow_job(client, made, as_json=as_json)
    if as_json:
        output.print_json(made.raw)
    elif not wait:
        output.print_line(made.id)
    job_following.check_succeeded(made)
    return 0


@command(
    "compare",
    LOOK,
    example="""
aitne compare 1a2b3c4d 5e6f7a8b
aitne compare my-sweep_3 my-sweep_5
aitne compare 1a2b3c4d 5e6f7a8b --all --json
""",
)
def compare(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A job, by id or name; JOB_3 is task 3 of JOB.",
            autocompletion=completion.complete_jobs,
        ),
    ],
    second: Annotated[
        str,
        typer.Argument(metavar="B", help="The other job.", autocompletion=completion.complete_jobs),
    ],
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also values that do not differ.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Compare two jobs or array tasks, and show what differs between them.

    Compared are the job files, code, packages, images and datasets, nodes, outcomes, resource usage
    and metrics.
    """
    from aitne.cli.views import job_runs

    client = make_client(url, data_dir)
    ids = [find_job(client, name).id for name in (first, second)]
    comparison = client.jobs.compare(*ids)
    if as_json:
        output.print_json(comparison.raw)
    else:
        job_runs.print_comparison(comparison, everything=everything)
    return 0


@command(
    "sweep",
    LOOK,
    example="""
aitne sweep digits --watch
aitne sweep 1a2b3c4d --csv > sweep.csv
aitne sweep 1a2b3c4d --stop --yes
""",
)
def sweep(
    job: JobArgument,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Print each change, until it has ended.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Cancel all tasks but the best one so far.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a line for each task.")] = False,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show the results of a sweep, best first."""
    from aitne.cli.views import job_runs

    client = make_client(url, data_dir)
    record = find_job(client, job)
    if stop:
        if not yes:
            job_runs.print_sweep(client.jobs.sweep(record.id))
            output.require_confirmation("Stop the rest of this sweep?")
        client.jobs.stop_sweep(record.id)
        output.print_message("The rest of it is cancelled; the best task so far continues.")
    for state in client.jobs.watch_sweep(record.id) if watch else [client.jobs.sweep(record.id)]:
        if as_json:
            output.print_json(state.raw)
        elif as_csv:
            job_runs.write_csv(state, sys.stdout)
        else:
            if watch and sys.stdout.isatty():
                sys.stdout.write("\x1b[H\x1b[J")
            job_runs.print_sweep(state)
        sys.stdout.flush()
    return 0
