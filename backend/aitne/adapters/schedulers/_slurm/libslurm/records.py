"""What pyslurm says of a job, in the platform's terms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aitne.adapters.schedulers._slurm import identity, reasons
from aitne.adapters.schedulers._slurm.queue import node_names
from aitne.adapters.schedulers._slurm.states import job_state
from aitne.core.errors import SchedulerUnavailable
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.states import JobState
from aitne.core.units import parse_array

_FAR = 253_402_300_799  # the last second of the year 9999
_HIGHEST_SIGNAL = 31


def rows(record: Mapping[str, Any]) -> Sequence[SchedulerJob]:
    """The rows of one record: none for a job that is not the platform's, and one for each task of an
    array that waits as a whole.

    Raises:
        SchedulerUnavailable: libslurm left tasks of a long array out.
    """
    ours = identity.of_comment(_text(record.get("comment")))
    if ours is None:
        return ()
    job = _row(record, *ours)
    array, task = _number(record.get("array_id")), _number(record.get("array_task_id"))
    if not array:
        return (job,)
    if task is not None:
        return (_task(job, array, task),)
    waiting = _text(record.get("array_tasks_waiting"))
    if not waiting:
        # The zero itself is lost: pyslurm takes it for "none" (u32_parse in its utils/uint.pyx).
        return (_task(job, array, 0),)
    try:
        tasks = parse_array(waiting).indices
    except ValueError as error:
        # What is cut off ("1,3,5,...") must not look like absent.
        raise SchedulerUnavailable(
            f"pyslurm names the tasks of array {array} in a way that cannot be read: {waiting!r}"
        ) from error
    return tuple(_task(job, array, index) for index in tasks)


def doubtful(job: SchedulerJob) -> bool:
    """Whether the exit code may be 128 more than pyslurm says.

    ``_get_exit_code`` in its ``utils/helpers.pyx`` takes 128 from whatever is not smaller.
    """
    return job.exit_code is not None and job.state is not JobState.COMPLETED


def _task(job: SchedulerJob, array: int, task: int) -> SchedulerJob:
    return job.model_copy(update={"scheduler_id": f"{array}_{task}", "array_task_id": task})


def _row(record: Mapping[str, Any], job_id: Any, attempt: int) -> SchedulerJob:
    started, ended = _time(record.get("start_time")), _time(record.get("end_time"))
    reason = _text(record.get("state_reason")) or "None"
    nodes = node_names(_text(record.get("allocated_nodes")))
    words = re.split(r"[,+|]", _text(record.get("state")))
    by = _number(record.get("exit_code_signal")) or None
    state, why = job_state(words, reason, begun=bool(nodes), signal=by)
    waits = state is JobState.QUEUED
    begun = bool(nodes) and not waits
    code = _number(record.get("exit_code")) if by is None else None
    over = state.terminal and begun
    minutes = _number(record.get("time_limit"))
    dependency = _dependency(record.get("dependencies"))
    # Looked at above, field by field: validating 10,000 of them takes half a second.
    return SchedulerJob.model_construct(
        scheduler_id=str(record.get("id", "")),
        job_id=job_id,
        attempt=attempt,
        array_task_id=None,
        account=_text(record.get("user_name")) or None,
        state=state,
        reason=why,
        pending_reason=reasons.sentence(reason, dependency) if waits else None,
        restart_count=_number(record.get("requeue_count")) or 0,
        exit_code=code if over else None,
        signal=by if over and by is not None and by <= _HIGHEST_SIGNAL else None,
        nodes=nodes,
        partition=_text(record.get("partition")) or None,
        priority=_number(record.get("priority")),
        submitted_at=_time(record.get("submit_time")),
        # Of a job that waits it is the moment Slurm plans for; of one that never ran, nothing.
        started_at=started if begun else None,
        # Of a job that runs it is the end of its time limit.
        ended_at=ended if state.terminal else None,
        expected_start_at=started if waits else None,
        time_limit_s=None if minutes is None else minutes * 60,
        raw=dict(record),
    )


def _dependency(value: object) -> str:
    """As squeue would print it: ``afterok:12(unfulfilled)``."""
    if not isinstance(value, Mapping):
        return ""
    kinds = ((kind, jobs) for kind, jobs in value.items() if isinstance(jobs, list))
    return ",".join(f"{kind}:{job}" for kind, jobs in kinds for job in jobs)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: object) -> datetime | None:
    seconds = _number(value)
    return datetime.fromtimestamp(seconds, UTC) if seconds and 0 < seconds <= _FAR else None
