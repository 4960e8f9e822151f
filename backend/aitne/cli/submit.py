"""From a job file to a running job: plan, ask, submit, and follow if that is wanted."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from aitne.cli import follow, output
from aitne.cli.verbs.ps import resources
from aitne.client import Client, Job, Plan
from aitne.client.session import new_key


def submit(
    client: Client, job_file: dict[str, Any], *, yes: bool, wait: bool, as_json: bool
) -> Job:
    """Show the plan, ask unless ``yes``, submit, and with ``wait`` follow it.

    Raises:
        InvalidInput: the platform refuses it, or it could never run.
        JobFailed: it was waited for, and did not end well.
    """
    plan = client.jobs.plan(job_file)
    show_plan(plan, file=sys.stderr)
    refuse_unfit(plan)
    if not yes:
        output.confirm(f"Start this {plan.spec.type}?")
    # One key for all tries: however often the connection breaks, there is one job.
    key = new_key()
    if plan.spec.type == "session":
        job = client.sessions.start(job_file=job_file, key=key)
    else:
        job = client.jobs.create(job_file, key=key)
    output.say(f"Submitted {job.type} {job.id[:8]} ({output.plain(job.name, 60)}).")
    if wait:
        job = attend(client, job, as_json=as_json)
    if as_json:
        output.answer_json(job.raw)
    elif not wait:
        _say_what_next(job)
        output.answer(job.id)
    elif job.is_session and not job.ended:
        output.answer(job.url or "")
    follow.check(job)
    return job


def attend(client: Client, job: Job, *, as_json: bool) -> Job:
    """Follow a session until it is ready, a job to its end; the job as it is then."""
    try:
        if job.is_session:
            return follow.until_ready(client, job)
        return follow.to_the_end(client, job, follow.log_stream(as_json=as_json))
    except KeyboardInterrupt:
        output.say(
            f"\nDetached; {job.type} {job.id[:8]} goes on. `aitne attach {job.id[:8]}` comes back, "
            f"`aitne stop {job.id[:8]}` ends it."
        )
        raise


def show_plan(plan: Plan, *, file: TextIO) -> None:
    """What would be submitted, as a table."""
    spec = plan.spec
    template = f" ({spec.template} {spec.template_version})" if spec.template else ""
    starts = "now" if plan.starts_now else f"later: {plan.waits_for or 'it has to wait'}"
    output.facts(
        [
            (spec.type.capitalize(), output.plain(spec.name, 80) + template),
            ("Project", spec.project),
            ("Image", spec.image),
            ("Runs", _commands(spec.commands)),
            ("In", spec.workdir),
            ("Parameters", ", ".join(f"{k}={v}" for k, v in spec.parameters.items())),
            ("Resources", resources(spec.resources)),
            ("Time limit", output.duration(spec.max_duration_s)),
            ("Array", spec.array),
            ("Slurm", _slurm(spec.slurm)),
            ("Starts", starts if plan.fits else "never"),
            ("Expected start", output.moment(plan.expected_start_at)),
            *(("Note", warning) for warning in plan.warnings),
        ],
        file=file,
    )


def refuse_unfit(plan: Plan) -> None:
    """Raise ``InvalidInput`` if the plan could never run."""
    if not plan.fits:
        from aitne.core.errors import InvalidInput

        raise InvalidInput(
            f"This can never start here: {plan.waits_for or 'no node is large enough'}. "
            "`aitne node ls` shows what there is."
        )


def _slurm(options: dict[str, Any]) -> str:
    """What of the ``slurm`` section was said."""
    return ", ".join(
        f"{name} {' '.join(value) if isinstance(value, list) else value}"
        for name, value in options.items()
        if value
    )


def _commands(commands: list[str]) -> str:
    if not commands:
        return ""
    more = f" (+{len(commands) - 1})" if len(commands) > 1 else ""
    return (
        output.plain(commands[0].splitlines()[0] if commands[0].strip() else commands[0], 70) + more
    )


def _say_what_next(job: Job) -> None:
    short = job.id[:8]
    if job.is_session:
        output.say(
            f"`aitne attach {short}` waits until it is ready, `aitne open {short}` opens it."
        )
    else:
        output.say(f"`aitne logs -f {short}` follows its log, `aitne stop {short}` ends it.")
