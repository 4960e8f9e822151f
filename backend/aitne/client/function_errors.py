"""Errors of submitted functions: how the job ended, or why its result cannot be had."""

from __future__ import annotations

import concurrent.futures

from aitne.core.errors import AitneError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client.records import Job


class JobNotCompleted(AitneError):
    """The job ended without a result. ``job`` is its last record, and ``log`` the end of its log;
    the message has both."""

    code = "job_not_completed"

    def __init__(self, message: str, job: Job, log: str = "") -> None:
        super().__init__(message)
        self.job = job
        self.log = log


class JobCancelled(JobNotCompleted, concurrent.futures.CancelledError):
    """The job was cancelled."""

    code = "job_cancelled"


class JobTimedOut(JobNotCompleted):
    """The job reached its time limit. If a wait for it expires, ``WaitTimeout`` is
    raised instead."""

    code = "job_timed_out"


class JobOutOfMemory(JobNotCompleted):
    """The job used more memory than it had requested."""

    code = "job_out_of_memory"


class JobNodeFailed(JobNotCompleted):
    """A node of the job failed."""

    code = "job_node_failed"


class JobPreempted(JobNotCompleted):
    """The job was preempted and not started again."""

    code = "job_preempted"


class JobLost(JobNotCompleted):
    """The scheduler no longer knows the job; its program may or may not have finished."""

    code = "job_lost"


class FunctionRefused(JobNotCompleted):
    """The job did not run the function, because of its Python, a missing module or folder."""

    code = "function_refused"


class ResultUnusable(AitneError):
    """The job has left a result that cannot be loaded here; the message says why."""

    code = "result_unusable"


class RemoteError(AitneError):
    """The function raised an exception that cannot be pickled. ``type_name`` is its class, and the
    cause is its traceback."""

    code = "remote_error"

    def __init__(self, message: str, type_name: str) -> None:
        super().__init__(message)
        self.type_name = type_name

    def _render_traceback_(self) -> list[str]:
        traceback = [str(self.__cause__)] if isinstance(self.__cause__, RemoteTraceback) else []
        return [*traceback, *super()._render_traceback_()]


class RemoteTraceback(Exception):
    """Traceback of an exception in its job, as text. It is the exception's ``__cause__``."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


_BY_STATE = {
    "CANCELLED": (JobCancelled, "was cancelled"),
    "TIMED_OUT": (JobTimedOut, "reached its time limit"),
    "OUT_OF_MEMORY": (JobOutOfMemory, "ran out of memory"),
    "NODE_FAILED": (JobNodeFailed, "lost its node"),
    "PREEMPTED": (JobPreempted, "was preempted"),
    "LOST": (JobLost, "was lost"),
}


def make_end_error(job: Job, log: str) -> JobNotCompleted:
    """Return the error for a job that ended without a result; ``log`` is the end of its log."""
    kind, verb = _BY_STATE.get(job.state, (JobNotCompleted, "failed"))
    if job.ok:
        verb = "completed, but has left no result: it ran no submitted function"
    parts = [f"Job {job.name} ({job.short_id}) {verb}", job.message or job.reason or ""]
    sentence = ": ".join(part.rstrip(".") for part in parts if part)
    quoted = f"\nThe end of its log:\n{log}" if log else ""
    return kind(f"{sentence}.{quoted}", job, log)
