"""``session``, ``open``, ``extend`` and ``keep``: sessions."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Annotated, Any

import typer

from aitne.cli import completion, job_submission, output
from aitne.cli.command_registry import CONTEXT, WORK, command, examples, group
from aitne.cli.job_lookup import find_job, find_unfinished, make_client
from aitne.cli.shared_options import (
    Cpu,
    DataDir,
    Datasets,
    Gpu,
    Image,
    Json,
    MaxDuration,
    Memory,
    Nodes,
    ProjectOption,
    SessionArgument,
    UnfinishedJobArgument,
    Url,
    Wait,
    Yes,
)
from aitne.cli.template_parameters import parse_parameters
from aitne.client import Client, Job
from aitne.client.api_session import make_idempotency_key

EXTEND_PATIENCE_S = 10.0


@group("session", WORK)
def sessions() -> None:
    """Start and list sessions."""


@sessions.command(
    "start",
    context_settings=CONTEXT,
    epilog=examples("""
aitne session start jupyterlab
aitne session start jupyterlab --cpu 4 --memory 16G --gpu a100:1
aitne session start jupyterlab --image jupyter --dataset div2k
aitne session start jupyterlab --yes --wait --json
"""),
)
def start(
    template: Annotated[
        str,
        typer.Argument(
            help="A template; `aitne template ls` lists them.",
            autocompletion=completion.complete_templates,
        ),
    ],
    name: Annotated[str | None, typer.Option("--name", help="Name of the session.")] = None,
    project: ProjectOption = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    nodes: Nodes = None,
    max_duration: MaxDuration = None,
    inactivity_duration: Annotated[
        str | None,
        typer.Option("--inactivity-duration", help="Idle time after which it ends: 1h, or off."),
    ] = None,
    image: Image = None,
    runtime: Annotated[
        str | None, typer.Option("--runtime", metavar="NAME", help="apptainer or docker.")
    ] = None,
    datasets: Datasets = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", "-P", metavar="NAME=VALUE", help="A parameter; may be repeated."),
    ] = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Start a session from a template: show the plan, ask, start.

    With --wait its stages are shown until it is ready, and its address is printed.
    """
    client = make_client(url, data_dir)
    resources = {"cpu": cpu, "memory": memory, "gpu": gpu, "nodes": nodes}
    job_file: dict[str, Any] = {
        "type": "session",
        "template": template,
        "name": name,
        "project": project,
        "max_duration": max_duration,
        "inactivity_duration": inactivity_duration,
        "image": image,
        "container": None if runtime is None else {"runtime": runtime},
        "datasets": datasets or None,
        "resources": {field: value for field, value in resources.items() if value is not None}
        or None,
        "parameters": parse_parameters(client, template, parameters) if parameters else None,
    }
    fields = {field: value for field, value in job_file.items() if value is not None}
    job_submission.submit_job_file(client, fields, yes=yes, wait=wait, as_json=as_json)
    return 0


@sessions.command(
    "continue",
    context_settings=CONTEXT,
    epilog=examples("""
aitne session continue my-notebook
aitne session continue 1a2b3c4d --yes --wait
"""),
)
def continue_session(
    session: SessionArgument,
    yes: Yes = False,
    wait: Wait = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Start an ended session again, with the notebooks that were open in it.

    It has the same environment, image and folder. The memory of its kernels is lost.
    """
    from aitne.cli.views import job_runs

    client = make_client(url, data_dir)
    job = find_job(client, session, sessions=True)
    if not yes:
        job_runs.print_rerun(client.jobs.plan_resubmit(job.id), file=sys.stderr)
        output.require_confirmation(f"Continue {output.to_single_line(job.name, 60)}?")
    made = client.sessions.resume(job.id, key=make_idempotency_key())
    output.print_message(f"Submitted session {made.short_id}, which continues {job.short_id}.")
    if wait:
        made = job_submission.follow_job(client, made, as_json=as_json)
    if as_json:
        output.print_json(made.raw)
    else:
        output.print_line(made.url or made.id if wait else made.id)
    if wait:
        from aitne.cli import job_following

        job_following.check_succeeded(made)
    return 0


@sessions.command("ls", context_settings=CONTEXT)
def ls(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also all that have ended.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List sessions, newest first. Without --all: unfinished ones and the last ten that ended."""
    from aitne.cli.views.job_table import ps

    return ps(kind="session", everything=everything, as_json=as_json, url=url, data_dir=data_dir)


@command(
    "open",
    WORK,
    example="""
aitne open my-notebook
aitne open 1a2b3c4d --print
""",
)
def open_session(
    session: Annotated[
        str | None,
        typer.Argument(
            help="Its id, the beginning of it, or its name.",
            autocompletion=completion.complete_sessions,
        ),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(help="Another of its apps, such as tensorboard."),
    ] = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print the address, open no browser.")
    ] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Open a session, or the portal, in the browser.

    The portal opens through a link that logs you in once. Without a display the address is printed.
    """
    client = make_client(url, data_dir)
    if session is None:
        address = client.tokens.login_link().url
    else:
        address = client.sessions.open(find_unfinished(client, session, sessions=True).id, app)
    if as_json:
        reached_at = None if session is None else client.me().platform.sessions_address
        output.print_json({"url": address, "connect_to": reached_at})
        return 0
    output.print_line(address)
    if not print_only:
        from aitne.cli.browser import open_url

        open_url(address)
    return 0


@command(
    "extend",
    WORK,
    example="""
aitne extend my-notebook 1h
aitne extend 1a2b3c4d 30m --yes
""",
)
def extend(
    job: UnfinishedJobArgument,
    duration: Annotated[str, typer.Argument(help="Time to add, such as 1h or 30m.")],
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Extend the time limit of a running job or session."""
    client = make_client(url, data_dir)
    record = find_unfinished(client, job)
    if not yes:
        end = record.expires_at.astimezone().strftime("%H:%M") if record.expires_at else "not known"
        noun = "Session" if record.is_session else "Job"
        output.print_facts(
            [(noun, output.to_single_line(record.name, 60)), ("Ends", end), ("More time", duration)]
        )
        output.require_confirmation("Extend it?")
    before = record.expires_at
    record = _wait_for_extension(client, client.jobs.extend(record.id, duration), before)
    moved = record.expires_at != before
    if as_json:
        output.print_json(record.raw)
    elif moved:
        output.print_message(f"It ends at {output.format_time(record.expires_at)}.")
    else:
        output.print_message(
            record.message or "The scheduler has not changed its end yet; check again soon."
        )
    return 0 if moved else 1


@command("keep", WORK, example="aitne keep my-notebook")
def keep(
    session: SessionArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Keep an idle session from being stopped."""
    client = make_client(url, data_dir)
    job = client.sessions.keep(find_unfinished(client, session, sessions=True).id)
    if as_json:
        output.print_json(job.raw)
    elif job.inactivity_duration_s is None:
        output.print_message(f"{job.name} is never stopped for inactivity.")
    else:
        limit = output.format_duration(job.inactivity_duration_s)
        output.print_message(
            f"{job.name} continues; it ends after another {limit} without activity."
        )
    return 0


def _wait_for_extension(client: Client, job: Job, before: datetime | None) -> Job:
    """Wait until the scheduler has changed the end of the job from ``before``, and return the job;
    after a timeout return it as it is."""
    deadline = time.monotonic() + EXTEND_PATIENCE_S
    version = job.version
    while job.expires_at == before and time.monotonic() < deadline:
        if job.version > version and job.message:
            break  # the scheduler has rejected it; the message has the reason
        time.sleep(0.2)
        job = client.jobs.get(job.id)
    return job
