"""States of jobs and sessions, the permitted transitions between them, and termination reasons.

Jobs and sessions have the same states: a session is a job whose apps listen on a port, and only
READY is limited to sessions. The names are those of Slurm where Slurm has one
(https://slurm.schedmd.com/job_state_codes.html).
"""

from __future__ import annotations

from enum import StrEnum

from aitne.core.errors import IllegalTransition


class JobState(StrEnum):
    """State of a job in its life cycle. The API, the CLI and the database use these values."""

    PENDING_SUBMIT = "PENDING_SUBMIT"
    """Accepted and stored; the controller has not submitted it to the scheduler yet."""
    SUBMITTING = "SUBMITTING"
    """The controller is submitting it to the scheduler now."""
    UNCERTAIN = "UNCERTAIN"
    """The scheduler's answer to the submission was ambiguous; the controller searches for the job's
    UUID.
    """
    QUEUED = "QUEUED"
    """The scheduler has the job in its queue."""
    STARTING = "STARTING"
    """The job has an allocation; its agent has not reported yet."""
    RUNNING = "RUNNING"
    """The user's program runs."""
    READY = "READY"
    """Sessions only: the app answers requests."""
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    """The program has ended; the scheduler is still cleaning up."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAILED = "NODE_FAILED"
    PREEMPTED = "PREEMPTED"
    LOST = "LOST"
    """The scheduler has no record of the job any more, which a separate query has confirmed."""
    UNKNOWN = "UNKNOWN"
    """The scheduler does not report the job's state. This never means that the job has ended."""

    @property
    def is_terminal(self) -> bool:
        """Return whether this state is final for the attempt."""
        return self in TERMINAL

    @property
    def is_active(self) -> bool:
        """Return whether a job in this state has an allocation, as far as is known."""
        return self in ACTIVE


TERMINAL = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMED_OUT,
        JobState.OUT_OF_MEMORY,
        JobState.NODE_FAILED,
        JobState.PREEMPTED,
        JobState.LOST,
    }
)
ACTIVE = frozenset(
    {
        JobState.STARTING,
        JobState.RUNNING,
        JobState.READY,
        JobState.SUSPENDED,
        JobState.COMPLETING,
    }
)
LIVE = frozenset(JobState) - TERMINAL
WAITING = frozenset(
    {JobState.PENDING_SUBMIT, JobState.SUBMITTING, JobState.UNCERTAIN, JobState.QUEUED}
)
"""States of a job that has no allocation yet."""

_S = JobState
_ENDS = TERMINAL | {_S.UNKNOWN}
_ALLOCATED = frozenset({_S.STARTING, _S.RUNNING, _S.SUSPENDED, _S.COMPLETING})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _S.PENDING_SUBMIT: frozenset({_S.SUBMITTING, _S.CANCELLED, _S.FAILED}),
    # A submission ends when the scheduler accepts it, refuses it, or does not answer.
    # The agent may also report before the scheduler has answered the submission.
    _S.SUBMITTING: frozenset({_S.PENDING_SUBMIT, _S.QUEUED, _S.UNCERTAIN, _S.FAILED, _S.CANCELLED})
    | _ALLOCATED,
    _S.UNCERTAIN: frozenset({_S.QUEUED, _S.PENDING_SUBMIT, _S.FAILED, _S.CANCELLED}) | _ALLOCATED,
    _S.QUEUED: _ALLOCATED | _ENDS,
    # Back to QUEUED is a requeue: the scheduler starts the same job again.
    _S.STARTING: frozenset({_S.RUNNING, _S.SUSPENDED, _S.COMPLETING, _S.QUEUED}) | _ENDS,
    _S.RUNNING: frozenset({_S.READY, _S.SUSPENDED, _S.COMPLETING, _S.QUEUED}) | _ENDS,
    _S.READY: frozenset({_S.SUSPENDED, _S.COMPLETING, _S.QUEUED}) | _ENDS,
    _S.SUSPENDED: frozenset({_S.RUNNING, _S.READY, _S.COMPLETING, _S.QUEUED}) | _ENDS,
    _S.COMPLETING: frozenset({_S.QUEUED}) | _ENDS,
    _S.UNKNOWN: frozenset({_S.QUEUED, _S.READY}) | _ALLOCATED | TERMINAL,
    # A terminal state is left only by a retry, which is a new attempt of the same job.
    **{state: frozenset({_S.PENDING_SUBMIT}) for state in TERMINAL},
}


def check_transition(old: JobState, new: JobState) -> None:
    """Check that the state machine permits the transition from ``old`` to ``new``. Equal states are
    permitted.

    Raises:
        IllegalTransition: the state machine does not permit the transition.
    """
    if old is not new and new not in TRANSITIONS[old]:
        allowed = ", ".join(sorted(TRANSITIONS[old]))
        raise IllegalTransition(
            f"A job cannot go from {old} to {new}; from {old} it may go to {allowed}."
        )


class TerminationReason(StrEnum):
    """Reason why an attempt ended, more specific than its state. It is used as a label of metrics,
    so there are few values.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    """The user's program ended with a non-zero exit code or by a signal of its own."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAILED = "node_failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    REJECTED = "rejected"
    """The scheduler refused the submission."""
    DEPENDENCY_FAILED = "dependency_failed"
    DUPLICATE = "duplicate"
    """Another run of this attempt had created the fence. It is never the reason of a job's end."""
    IDLE = "idle"
    """The session had no activity during its inactivity duration."""
    GOAL_REACHED = "goal_reached"
    """The sweep has reached its goal; the reason of the array job and of its cancelled tasks."""
    START_FAILED = "start_failed"
    """The app never answered, or the agent could not start the program."""


RETRYABLE = frozenset(
    {
        TerminationReason.FAILED,
        TerminationReason.OUT_OF_MEMORY,
        TerminationReason.NODE_FAILED,
        TerminationReason.PREEMPTED,
        TerminationReason.LOST,
    }
)
"""Reasons that a job file may contain in ``retry.on``."""

STATE_OF_REASON: dict[TerminationReason, JobState] = {
    TerminationReason.COMPLETED: JobState.COMPLETED,
    TerminationReason.FAILED: JobState.FAILED,
    TerminationReason.CANCELLED: JobState.CANCELLED,
    TerminationReason.TIMED_OUT: JobState.TIMED_OUT,
    TerminationReason.OUT_OF_MEMORY: JobState.OUT_OF_MEMORY,
    TerminationReason.NODE_FAILED: JobState.NODE_FAILED,
    TerminationReason.PREEMPTED: JobState.PREEMPTED,
    TerminationReason.LOST: JobState.LOST,
    TerminationReason.REJECTED: JobState.FAILED,
    TerminationReason.DEPENDENCY_FAILED: JobState.CANCELLED,
    TerminationReason.DUPLICATE: JobState.FAILED,
    TerminationReason.IDLE: JobState.CANCELLED,
    TerminationReason.GOAL_REACHED: JobState.CANCELLED,
    TerminationReason.START_FAILED: JobState.FAILED,
}


def permits_retry(
    reason: TerminationReason, on: frozenset[TerminationReason], runs: int, max_retries: int
) -> bool:
    """Return whether another run follows a run that ended for ``reason``.

    Args:
        reason: reason why the run ended.
        on: reasons after which the job's retry policy permits another run.
        runs: number of runs so far, including this one.
        max_retries: maximum number of further runs in the job's retry policy.

    New attempts by the platform and restarts by the scheduler both count as runs.
    """
    return reason in RETRYABLE and reason in on and runs <= max_retries
