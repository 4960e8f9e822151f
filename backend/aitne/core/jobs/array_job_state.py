"""IDs of an array job's tasks, and derivation of an array job's row from its tasks.

An array job does not run itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from aitne.core.jobs.states import LIVE, TERMINAL, JobState, TerminationReason

TaskCounts = Mapping[tuple[JobState, TerminationReason | None], int]
"""Number of tasks in each state and with each termination reason."""

_S = JobState
_GOAL = TerminationReason.GOAL_REACHED

PROGRESS = (
    _S.PENDING_SUBMIT,
    _S.SUBMITTING,
    _S.UNCERTAIN,
    _S.UNKNOWN,
    _S.QUEUED,
    _S.STARTING,
    _S.SUSPENDED,
    _S.COMPLETING,
    _S.READY,
    _S.RUNNING,
)
"""Live states, least advanced first. RUNNING is last, because an array is running if any of its
tasks is.
"""

SEVERITY = (
    _S.COMPLETED,
    _S.CANCELLED,
    _S.PREEMPTED,
    _S.LOST,
    _S.NODE_FAILED,
    _S.TIMED_OUT,
    _S.OUT_OF_MEMORY,
    _S.FAILED,
)
"""Terminal states, best first: an error of the user's program counts as worse than an external
cause.
"""

if frozenset(PROGRESS) != LIVE or frozenset(SEVERITY) != TERMINAL:
    raise AssertionError("a state is missing from the order of an array's states")


@dataclass(frozen=True, slots=True)
class ArrayState:
    """State, reason and message of an array job's row.

    ``message`` is None while all its tasks are in one live state, and for a sweep that has reached
    its goal: the store then uses the message of the tasks that were cancelled.
    """

    state: JobState
    reason: TerminationReason | None
    message: str | None


_INDEX_BITS = (1 << 32) - 1
"""Bits of an ID that contain the task index: 0 is the array job, all bits set is the row that the
pending tasks share.
"""


def array_id(random_id: UUID) -> UUID:
    """Return a job ID for an array job, derived from a random UUID: its last 32 bits are set to 0.
    The IDs of the array's tasks have a number in these bits instead.
    """
    return UUID(int=random_id.int & ~_INDEX_BITS)


def task_id(array_job_id: UUID, index: int) -> UUID:
    """Return the ID of a task, which can be computed before the task has a row.

    Args:
        array_job_id: ID that ``array_id`` returned.
        index: array index of the task, from 0.
    """
    return UUID(int=array_job_id.int + index + 1)


def make_pending_tasks_id(array_job_id: UUID) -> UUID:
    """Return the ID of the row that the array's pending tasks share, which is greater than the IDs
    of its tasks.
    """
    return UUID(int=array_job_id.int | _INDEX_BITS)


def task_index(job_id: UUID) -> int | None:
    """Return the task index of an id made by ``task_id``; None if the id is not a task's."""
    number = job_id.int & _INDEX_BITS
    return None if number in (0, _INDEX_BITS) else number - 1


def array_state(tasks: TaskCounts) -> ArrayState:
    """Return the state of an array job, derived from its tasks.

    While any task is live, it is the most advanced state of the live tasks, without a reason. When
    all have ended, it is COMPLETED if all completed, otherwise the worst state (``SEVERITY``) with
    the most frequent reason of the tasks in that state (if there are several, the first by name).

    A sweep that has reached its goal is COMPLETED as soon as one of its tasks is, whatever the
    states of the others.

    Raises:
        ValueError: there is no task.
    """
    counts: Counter[JobState] = Counter()
    for (state, _), count in tasks.items():
        counts[state] += count
    counts = +counts
    if not counts:
        raise ValueError("an array has at least one task")
    live = LIVE & counts.keys()
    goal = any(count for (_, reason), count in tasks.items() if reason is _GOAL)
    if live:
        state = max(live, key=PROGRESS.index)
        if goal:
            return ArrayState(state, _GOAL, None)
        return ArrayState(state, None, None if len(counts) == 1 else counts_sentence(counts))
    if goal and counts[JobState.COMPLETED]:
        return ArrayState(JobState.COMPLETED, _GOAL, None)
    state = max(counts, key=SEVERITY.index)
    reasons = [
        (-count, reason)
        for (of, reason), count in tasks.items()
        if of is state and reason is not None and count
    ]
    return ArrayState(state, min(reasons)[1] if reasons else None, counts_sentence(counts))


def counts_sentence(counts: Counter[JobState]) -> str:
    """Return the counts as a sentence, such as ``3 tasks: 1 running, 2 queued.`` for an array."""
    order = (*reversed(PROGRESS), *SEVERITY)
    parts = ", ".join(
        f"{counts[state]} {state.lower().replace('_', ' ')}" for state in order if counts[state]
    )
    total = counts.total()
    return f"{total} {'task' if total == 1 else 'tasks'}: {parts}."
