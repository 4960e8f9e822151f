"""``aitne show``: a summary of one job."""

from __future__ import annotations

from aitne.cli import output
from aitne.cli.views.job_table import format_resources
from aitne.core.units import format_duration, format_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.client.records import (
        AdviceRecord,
        FailureRecord,
        Job,
        JobSpecRecord,
        RemedyRecord,
    )


def print_job(job: Job, advice: Sequence[AdviceRecord], failure: FailureRecord | None) -> None:
    """Print the job, the reason why it is pending or failed, and advice."""
    line = None if failure is None else failure.line
    output.print_facts(
        [
            (job.type.capitalize(), output.to_single_line(job.name, 80)),
            ("Id", job.id),
            ("State", job.state),
            (
                "Why",
                output.to_single_line((job.message or "") if failure is None else failure.text),
            ),
            ("Log", None if line is None else output.to_single_line(line.text)),
            *(
                ("Remedy", _format_remedy_command(job, remedy))
                for remedy in (failure.remedies if failure else ())
            ),
            *(("Advice", _format_advice(hint)) for hint in advice),
            ("Origin", "outside the platform" if job.origin == "outside" else None),
            ("Scheduler ID", job.scheduler_id if job.origin == "outside" else None),
            ("Log", output.to_single_line(job.log_path or "")),
            ("Owner", job.owner),
            ("Project", job.project),
            ("Resources", format_resources(job.resources)),
            ("Tree", format_tree(job)),
            ("Repository", format_repository(job)),
            ("Nodes", ", ".join(job.nodes)),
            ("Excluded nodes", ", ".join(job.excluded_nodes)),
            ("Expected start", output.format_time(job.expected_start_at)),
            ("Started", output.format_time(job.started_at)),
            ("Ends", output.format_time(job.expires_at if not job.ended else None)),
            ("Ended", output.format_time(job.ended_at)),
            ("Folder", format_folder_size(job)),
            ("Deletion", _describe_deletion(job)),
            ("Opens at", job.url if job.state == "READY" else None),
            *(
                (app["title"], f"aitne open {job.short_id} --app {app['name']}")
                for app in job.entry_points[1:]
                if app["url"]
            ),
        ]
    )


def format_tree(job: Job | JobSpecRecord) -> str | None:
    """Return a description of the uploaded working tree in which the job runs; None if it has
    none."""
    tree = job.tree
    if not tree:
        return None
    count = "1 file" if tree["files"] == 1 else f"{tree['files']} files"
    parts = [count, output.format_memory(tree["size_bytes"]), f"sha256 {tree['digest'][:12]}"]
    if tree["commit"]:
        parts.append(f"commit {tree['commit'][:12]}")
    if tree["dirty"]:
        parts.append("with uncommitted changes")
    return ", ".join(parts)


def format_repository(job: Job | JobSpecRecord) -> str | None:
    """Return address, revision and folder of the git repository in which the job runs; None if it
    has none."""
    repo = job.repo
    if not repo:
        return None
    subdir = f", in {repo['subdir']}" if repo["subdir"] else ""
    return output.to_single_line(f"{repo['url']} at {repo['ref']}{subdir}")


def format_folder_size(job: Job) -> str | None:
    """Return the size of an ended job's folder as text; None if it was not measured."""
    if job.folder_bytes is None or job.folder_files is None:
        return None
    files = "1 file" if job.folder_files == 1 else f"{job.folder_files} files"
    return f"{output.format_memory(job.folder_bytes)} in {files}"


def _describe_deletion(job: Job) -> str | None:
    if job.delete_requested_at is None:
        return None
    since = f"requested {output.format_time(job.delete_requested_at)}"
    return (
        since
        if job.delete_problem is None
        else f"{since}. {output.to_single_line(job.delete_problem)}"
    )


def _format_remedy_command(job: Job, remedy: RemedyRecord) -> str:
    """Return the command with which the user carries out a remedy for a failed job."""
    if remedy.kind == "packages":
        return f"aitne snapshot {job.short_id} --packages"
    memory = f" --memory {format_memory(remedy.memory_bytes)}" if remedy.memory_bytes else ""
    duration = remedy.max_duration_s
    limit = f" --max-duration {format_duration(duration)}" if duration else ""
    return f"aitne resubmit {job.short_id}{memory}{limit}"


def _format_advice(advice: AdviceRecord) -> str:
    names = ", ".join(
        f"{output.to_single_line(job['name'], 40)} ({job['id'][:8]})" for job in advice.jobs
    )
    when = f"{output.format_time(advice.at)}." if advice.at else ""
    return " ".join(filter(None, [output.to_single_line(advice.text), names, when]))
