"""Explanation of a failed job: what happened, the line of the log that shows it, and remedies.

Has no side effects. The portal translates the sentences; ``error_patterns`` contains the patterns
of errors in logs.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from aitne.core.byte_size_format import describe_bytes
from aitne.core.jobs.error_patterns import ErrorLine, FailureCause, find_error
from aitne.core.jobs.log_lines import LogLine
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job, ResubmitOptions
from aitne.core.models.resources import MemoryRequest
from aitne.core.units import describe_duration

LOG_BYTES = 64 << 10
"""Number of bytes at the end of a log that are read to explain a failure."""
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_FIRST_SIGNAL = 128
"""Number that a shell adds to the number of the signal that ended its program, to form an exit
code.
"""
_MIB = 1 << 20
_FACTORS = (2.0, 1.5)
"""Factors by which a requested amount of a resource is increased, tried one after the other."""
_EXPLAINED = frozenset(
    {
        JobState.FAILED,
        JobState.OUT_OF_MEMORY,
        JobState.TIMED_OUT,
        JobState.NODE_FAILED,
        JobState.PREEMPTED,
        JobState.LOST,
    }
)
_OF_MEMORY = frozenset({FailureCause.OUT_OF_MEMORY, FailureCause.KILLED})


class RemedyKind(StrEnum):
    """Kind of remedy: what the user can do with one action in the portal."""

    RESUBMIT = "resubmit"
    """Resubmit the job with other resources."""
    PACKAGES = "packages"
    """Show the packages of the job's environment."""


class Remedy(Frozen):
    """Action that may prevent the failure. A resubmission is proposed only with resources that all
    limits permit.
    """

    kind: RemedyKind = Field(description="Kind of the action.")
    memory_bytes: int | None = Field(None, description="Memory on each node of the new job.")
    max_duration_s: int | None = Field(None, description="Time limit of the new job.")


class Failure(Frozen):
    """Explanation of why a job failed."""

    cause: FailureCause = Field(description="Cause of the failure.")
    text: str = Field(description="The explanation, as a sentence.")
    line: LogLine | None = Field(None, description="The line of the log that shows the error.")
    remedies: tuple[Remedy, ...] = Field((), description="Actions that may prevent the failure.")


def explain_failure(job: Job, lines: Sequence[LogLine]) -> Failure | None:
    """Return the explanation of the job's failure; None if it has not failed.

    ``lines`` are the last lines of its log; empty if the log cannot be read.
    """
    if job.state not in _EXPLAINED:
        return None
    log_error = find_error(lines)
    line = None if log_error is None else log_error.line
    if job.state is JobState.OUT_OF_MEMORY:
        by_memory = log_error is not None and log_error.cause is FailureCause.OUT_OF_MEMORY
        return Failure(
            cause=FailureCause.OUT_OF_MEMORY,
            text=_explain_memory(job),
            line=line if by_memory else None,
        )
    if job.state is JobState.TIMED_OUT:
        text = f"It reached its time limit of {describe_duration(_time_limit_s(job))}."
        return Failure(cause=FailureCause.TIME_LIMIT, text=text)
    message = job.message or "It failed; no reason was reported."
    if job.state is not JobState.FAILED or job.reason is not TerminationReason.FAILED:
        # The platform or the scheduler knows more than the log.
        shown = line if job.reason is TerminationReason.START_FAILED else None
        return Failure(cause=FailureCause.OTHER, text=message, line=shown)
    cause, text = _explain_program(job, log_error) or (FailureCause.ERROR, message)
    return Failure(cause=cause, text=text, line=line)


def suggest_changes(job: Job, cause: FailureCause) -> tuple[ResubmitOptions, ...]:
    """Return changes with which a resubmitted job may not fail again, the best ones first; empty if
    no change would help.
    """
    if cause in _OF_MEMORY:
        memory = job.spec.resources.memory_bytes
        if not memory or job.spec.resources.memory_request is MemoryRequest.ALL:
            return ()
        return tuple(
            ResubmitOptions(memory=-(-int(memory * factor) // _MIB) * _MIB) for factor in _FACTORS
        )
    if cause is FailureCause.TIME_LIMIT:
        limit_s = _time_limit_s(job)
        return tuple(ResubmitOptions(max_duration=int(limit_s * factor)) for factor in _FACTORS)
    return ()


def _time_limit_s(job: Job) -> int:
    """Return the job's time limit in seconds, including its extensions."""
    began, end = job.allocated_at or job.started_at, job.expires_at
    extended_s = 0 if began is None or end is None else round((end - began).total_seconds())
    return max(job.spec.max_duration_s, extended_s)


def _explain_memory(job: Job) -> str:
    resources = job.spec.resources
    memory = describe_bytes(resources.memory_bytes)
    if resources.memory_request is MemoryRequest.ALL:
        return "It used more memory than its nodes have."
    if resources.memory_request is MemoryRequest.DEFAULT:
        if not resources.memory_bytes:
            return "It used more memory than the scheduler gives by default."
        return f"It used more memory than the {memory} that the scheduler gives by default."
    return f"It used more memory than the {memory} that it had requested."


def _explain_program(job: Job, log_error: ErrorLine | None) -> tuple[FailureCause, str] | None:
    """Return the cause and an explanation of the program's failure, from its exit code or signal
    and its log; None if they are not sufficient.
    """
    number = job.signal or _find_signal(job.exit_code)
    cause = None if log_error is None else log_error.cause
    if cause is FailureCause.OUT_OF_MEMORY:
        return cause, _explain_memory(job)
    if number:
        return _explain_signal(number)
    if log_error is not None and log_error.text is not None:
        return log_error.cause, log_error.text
    if job.exit_code == _NOT_FOUND:
        return FailureCause.COMMAND_NOT_FOUND, (
            "A command was not found (exit code 127): check its name, or load the module or "
            "environment that has it."
        )
    if job.exit_code == _NOT_EXECUTABLE:
        return FailureCause.NOT_EXECUTABLE, (
            "A command could not be executed (exit code 126): check its permissions and its first "
            "line."
        )
    return None


def _find_signal(exit_code: int | None) -> int | None:
    if exit_code is None or not _FIRST_SIGNAL < exit_code <= _FIRST_SIGNAL + signal.SIGRTMAX:
        return None
    return exit_code - _FIRST_SIGNAL


def _explain_signal(number: int) -> tuple[FailureCause, str]:
    if number == signal.SIGKILL:
        return FailureCause.KILLED, (
            "The program was killed by signal 9 (SIGKILL), which the system also sends when memory "
            "runs out."
        )
    if number == signal.SIGSEGV:
        return FailureCause.CRASHED, (
            "The program crashed with a segmentation fault (signal 11, SIGSEGV)."
        )
    if number == signal.SIGTERM:
        return FailureCause.TERMINATED, "The program was terminated by signal 15 (SIGTERM)."
    try:
        name = signal.Signals(number).name
    except ValueError:
        return FailureCause.SIGNAL, f"The program was ended by signal {number}."
    return FailureCause.SIGNAL, f"The program was ended by signal {number} ({name})."
