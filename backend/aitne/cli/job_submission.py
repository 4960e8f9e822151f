"""Submission of a job file: show the plan, ask, submit, and optionally follow the job."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from aitne.cli import error_report, job_following, output
from aitne.cli.progress_meter import ProgressMeter
from aitne.cli.views.job_summary import format_repository, format_tree
from aitne.cli.views.job_table import format_resources
from aitne.cli.views.planned_placement import format_placement_options, list_placement_facts
from aitne.client import Client, Job, Plan
from aitne.client.api_session import make_idempotency_key
from aitne.client.records import JobSpecRecord
from aitne.core.errors import AitneError, InvalidInput
from aitne.core.float_encoding import decode_floats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.cli.job_file_reader import JobFileSource

MOST_SETTINGS = 50
"""Maximum number of a sweep's tasks that are shown in a plan."""


def submit_job_file(
    client: Client, job_file: dict[str, Any], *, yes: bool, wait: bool, as_json: bool
) -> Job:
    """Show the plan of a job file, ask unless ``yes``, submit it, and with ``wait`` follow the job.

    Raises:
        InvalidInput: the platform rejects the job file, or the job can never run.
        JobFailed: ``wait`` is set, and the job did not succeed.
    """
    plan = client.jobs.plan(job_file)
    print_plan(plan, file=sys.stderr)
    check_plan_fits(plan)
    if not yes:
        output.require_confirmation(f"Start this {plan.spec.type}?")
    # One key for all attempts: even if the connection breaks, there is only one job.
    key = make_idempotency_key()
    if plan.spec.type == "session":
        job = client.sessions.start(job_file=job_file, key=key)
    else:
        job = client.jobs.create(job_file, key=key)
    output.print_message(
        f"Submitted {job.type} {job.short_id} ({output.to_single_line(job.name, 60)})."
    )
    if wait:
        job = follow_job(client, job, as_json=as_json)
    if as_json:
        output.print_json(job.raw)
    elif not wait:
        _print_next_steps(job)
        output.print_line(job.id)
    elif job.is_session and not job.ended:
        output.print_line(job.url or "")
    job_following.check_succeeded(job)
    return job


def check_synced_source(source: JobFileSource, folder: str) -> None:
    """Check that a job file that is submitted with --sync names no other files for the job
    (``tree``, ``repo`` or ``workdir``), because the job runs in the uploaded ones. A ``workdir``
    that is the uploaded ``folder`` itself is removed.

    Raises ``InvalidInput``.
    """
    content, folder = source.content, os.path.abspath(folder)
    if content.get("workdir") == folder:
        del content["workdir"]
    for name in ("tree", "repo", "workdir"):
        if content.get(name) is not None:
            line = source.find_line(name)
            place = source.name if line is None else f"{source.name}:{line}"
            raise InvalidInput(
                f"{place}: with --sync the job runs in a copy of {folder}. Remove `{name}`, or leave "
                "--sync out."
            )


def upload_tree(client: Client, folder: str) -> str:
    """Upload a working tree, showing the progress, and return its digest. Raises the errors of
    ``client.trees.upload``."""
    with ProgressMeter() as meter:
        tree = client.trees.upload(folder, heard=meter)
    count = "1 file" if tree.uploaded_files == 1 else f"{tree.uploaded_files} files"
    output.print_message(
        f"Uploaded {count} of {tree.files} ({output.format_memory(tree.uploaded_bytes)} of "
        f"{output.format_memory(tree.size_bytes)})."
    )
    return tree.digest


def submit_job_files(
    client: Client, sources: Sequence[JobFileSource], *, yes: bool, as_json: bool
) -> int:
    """Submit several job files and print the ids of the jobs, after asking unless ``yes``. Plans
    are not shown. Return the exit status: 1 if a job file was rejected, else 0."""
    if not yes:
        output.require_confirmation(f"Start {len(sources)} jobs?")
    results = client.jobs.submit_many(
        [source.content for source in sources], key=make_idempotency_key()
    )
    errors: dict[int, AitneError] = {}
    for number, (source, result) in enumerate(zip(sources, results, strict=True), start=1):
        if isinstance(result, Job):
            if not as_json:
                output.print_line(result.id)
            continue
        errors[number] = source.with_lines(result) if isinstance(result, InvalidInput) else result
        output.print_message(f"Job file {number} ({source.name}) was refused.")
        error_report.report_error(errors[number], as_json=False)
    output.print_message(f"Submitted {len(results) - len(errors)} of {len(results)} jobs.")
    if as_json:
        output.print_json(
            [
                result.raw
                if isinstance(result, Job)
                else {"error": error_report.make_error_document(errors[number])}
                for number, result in enumerate(results, start=1)
            ]
        )
    return 1 if errors else 0


def follow_job(client: Client, job: Job, *, as_json: bool) -> Job:
    """Follow a session until it is ready, or a job until it has ended, and return its record."""
    try:
        if job.is_session:
            return job_following.follow_until_ready(client, job)
        return job_following.follow_until_end(
            client, job, job_following.get_log_stream(as_json=as_json)
        )
    except KeyboardInterrupt:
        output.print_message(
            f"\nDetached; {job.type} {job.short_id} continues. "
            f"`aitne watch {job.short_id}` follows it, `aitne stop {job.short_id}` ends it."
        )
        raise


def print_plan(plan: Plan, *, file: TextIO) -> None:
    """Print the job that would be submitted as a table to ``file``."""
    spec = plan.spec
    template = f" ({spec.template} {spec.template_version})" if spec.template else ""
    starts = "now" if plan.starts_now else f"later: {plan.pending_reason or 'it has to wait'}"
    output.print_facts(
        [
            (spec.type.capitalize(), output.to_single_line(spec.name, 80) + template),
            ("Project", spec.project),
            ("Image", _describe_image(spec)),
            ("Environment", _format_options(spec.environment)),
            ("Datasets", ", ".join(f"{use['name']}:{use['version']}" for use in spec.datasets)),
            (
                "Runs",
                _describe_script(spec)
                or _describe_commands(spec.commands)
                or _describe_notebook(spec),
            ),
            ("Ranks", _describe_ranks(spec)),
            ("In", spec.workdir),
            ("Tree", format_tree(spec)),
            ("Repository", format_repository(spec)),
            ("Parameters", ", ".join(f"{k}={v}" for k, v in spec.parameters.items())),
            ("Resources", format_resources(spec.resources)),
            ("Placement", format_placement_options(spec.placement)),
            *list_placement_facts(plan.placement),
            ("Time limit", _time_limit(spec)),
            ("Array", spec.array),
            ("Sweep", f"{len(plan.settings)} settings" if plan.settings else ""),
            ("Slurm", _format_options(spec.slurm)),
            ("Starts", starts if plan.fits else "never"),
            ("Expected start", output.format_time(plan.expected_start_at)),
            *(("Limit", sentence) for sentence in plan.enforcement),
            *(("Note", warning) for warning in plan.warnings),
        ],
        file=file,
    )
    if plan.settings:
        _print_settings(plan.settings, file=file)


def _time_limit(spec: JobSpecRecord) -> str:
    by_default = "" if spec.max_duration_requested else " by default"
    return f"{output.format_duration(spec.max_duration_s)}{by_default}"


def _print_settings(settings: list[dict[str, Any]], *, file: TextIO) -> None:
    """Print the parameters of each task of a sweep, up to ``MOST_SETTINGS`` tasks."""
    shown = settings[:MOST_SETTINGS]
    rows = [(task, *setting.values()) for task, setting in enumerate(shown)]
    output.print_table(("TASK", *shown[0]), rows, file=file)
    if len(settings) > len(shown):
        output.print_message(f"... and {len(settings) - len(shown)} more.")


def check_plan_fits(plan: Plan) -> None:
    """Raise ``InvalidInput`` if the planned job can never start on this cluster."""
    if not plan.fits:
        raise InvalidInput(
            f"This can never start here: {plan.pending_reason or 'no node is large enough'}. "
            "`aitne node ls` shows the nodes."
        )


def _describe_image(spec: JobSpecRecord) -> str:
    if spec.runtime == "bare":
        return "none: the node as it is"
    more = [
        *(["its files can be changed"] if spec.container.get("writable") else []),
        *([] if spec.container.get("network", True) else ["no network"]),
    ]
    return ", ".join([f"{output.to_single_line(spec.image, 80)} ({spec.runtime})", *more])


def _format_options(options: dict[str, Any]) -> str:
    """Return the options that are set in a section of the job file as text."""
    return ", ".join(
        f"{name} {' '.join(value) if isinstance(value, list) else value}"
        for name, value in options.items()
        if value
    )


def _describe_ranks(spec: JobSpecRecord) -> str:
    chosen = spec.distributed
    if not chosen:
        return ""
    nodes, per_node = spec.resources.nodes, chosen["ranks_per_node"]
    placement = "1 node" if nodes == 1 else f"each of {nodes} nodes"
    how = {name: chosen[name] for name in ("backend", "strategy", "compress")}
    return (
        f"{nodes * per_node}: {per_node} on {placement}; "
        f"{', '.join(f'{k} {v}' for k, v in how.items())}"
    )


def _describe_commands(commands: list[str]) -> str:
    if not commands:
        return ""
    more = f" (+{len(commands) - 1})" if len(commands) > 1 else ""
    return (
        output.to_single_line(
            commands[0].splitlines()[0] if commands[0].strip() else commands[0], 70
        )
        + more
    )


def _describe_script(spec: JobSpecRecord) -> str:
    """Return the batch script that the job runs and its arguments; empty if it runs none."""
    if spec.script_path is None:
        return ""
    return output.to_single_line(shlex.join([spec.script_path, *spec.args]), 70)


def _describe_notebook(spec: JobSpecRecord) -> str:
    """Return the notebook of a job and its parameters; empty if it runs none."""
    if not spec.notebook:
        return ""
    parameters = decode_floats(spec.notebook.get("parameters") or {})
    values = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    kernel = spec.notebook.get("kernel")
    with_values = f" with {values}" if values else ""
    of_kernel = f", kernel {kernel}" if kernel else ""
    return output.to_single_line(f"{spec.notebook['path']}{with_values}{of_kernel}", 200)


def _print_next_steps(job: Job) -> None:
    short = job.short_id
    if job.is_session:
        output.print_message(
            f"`aitne watch {short}` waits until it is ready, `aitne open {short}` opens it."
        )
    else:
        output.print_message(
            f"`aitne logs -f {short}` follows its log, `aitne stop {short}` ends it."
        )
