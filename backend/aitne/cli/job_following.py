"""Following a job: its stages on stderr, its log on stdout, and its outcome."""

from __future__ import annotations

import sys
from typing import BinaryIO

from aitne.cli import output
from aitne.cli.views.job_log import filter_for_terminal, write_all
from aitne.client import Client, Job
from aitne.client.records import StageRecord

MARKS = {"done": "✓", "current": "…", "failed": "✗"}
WAITING = frozenset({"PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED", "STARTING"})


class StagePrinter:
    """Printer of a job's stages. A stage is printed when it begins, has a new reason, or ends,
    without repetition."""

    def __init__(self) -> None:
        self._shown: dict[tuple[int, str, str], str | None] = {}

    def print_changes(self, job: Job) -> None:
        """Print the stages of the job that have changed since the last call."""
        for stage in job.stages:
            # A ready session stays in that stage; a command that waits for it has reached its goal.
            status = "done" if stage.key == job.state.lower() == "ready" else stage.status
            key = (job.attempt, stage.key, status)
            if status not in MARKS or (key in self._shown and not self._has_news(key, stage)):
                continue
            self._shown[key] = stage.detail
            output.print_message(f"  {MARKS[status]} {_format_stage(stage, status)}")

    def _has_news(self, key: tuple[int, str, str], stage: StageRecord) -> bool:
        return key[2] != "done" and bool(stage.detail) and stage.detail != self._shown[key]


def _format_stage(stage: StageRecord, status: str) -> str:
    took = output.format_elapsed(stage.started_at, stage.ended_at) if stage.ended_at else ""
    detail = "" if status == "done" else output.to_single_line(stage.detail or "")
    return f"{stage.title:<12} {took:<7} {detail}".rstrip()


def follow_until_ready(client: Client, job: Job) -> Job:
    """Print the stages of a session until it is ready or has ended; return its record."""
    narrator = StagePrinter()

    def is_ready(now: Job) -> bool:
        narrator.print_changes(now)
        return now.state == "READY"

    return client.jobs.wait(job.id, until=is_ready)


def follow_until_running(client: Client, job: Job, narrator: StagePrinter | None = None) -> Job:
    """Print the stages of a job until it runs or has ended; return its record."""
    printer = narrator or StagePrinter()

    def has_begun(now: Job) -> bool:
        printer.print_changes(now)
        return now.state not in WAITING

    return client.jobs.wait(job.id, until=has_begun)


def follow_until_end(client: Client, job: Job, log: BinaryIO) -> Job:
    """Copy the log of a job to ``log`` as it is written, until the job has ended; return its
    record."""
    narrator = StagePrinter()
    # An array job has no log of its own: its tasks have.
    if not job.is_array:
        follow_until_running(client, job, narrator)
        chunk = b"\n"
        for chunk in filter_for_terminal(client.jobs.follow_logs(job.id), log):
            write_all(log, chunk)
        if not chunk.endswith(b"\n") and (log is sys.stderr.buffer or sys.stdout.isatty()):
            output.print_message("")

    def has_ended(now: Job) -> bool:
        narrator.print_changes(now)
        return now.ended

    return client.jobs.wait(job.id, until=has_ended)


def get_log_stream(*, as_json: bool) -> BinaryIO:
    """Return the stream to which a followed log is written: stdout, or stderr with ``as_json``,
    because stdout then contains only the JSON document."""
    stream = sys.stderr if as_json else sys.stdout
    stream.flush()
    return stream.buffer


def describe_end(job: Job) -> str:
    """Return a sentence that says why or how a job ended."""
    if job.message:
        return job.message
    if job.signal is not None:
        return f"{job.name} was ended by signal {job.signal}."
    if job.exit_code is not None:
        return f"{job.name} ended with exit code {job.exit_code}."
    return f"{job.name} is {job.state}."


def check_succeeded(job: Job) -> None:
    """Check that the job succeeded. If a sweep has reached its goal, print a message about it.

    Raises:
        JobFailed: the job did not succeed; the message states the reason.
    """
    if job.ok and job.reason == "goal_reached":
        output.print_message(output.to_single_line(describe_end(job)))
    if job.ended and not job.ok:
        from aitne.cli.errors import JobFailed

        advice = (
            f"`aitne show {job.short_id}` explains it, `aitne logs {job.short_id}` shows its log"
        )
        raise JobFailed(f"{job.state}: {describe_end(job)} ({advice})")
