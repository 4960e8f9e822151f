"""Conversion of pyslurm's records of jobs to the platform's terms."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aitne.adapters.schedulers._slurm import job_comment, pending_reasons
from aitne.adapters.schedulers._slurm.common_record_conversion import (
    make_array_record,
    make_task_record,
    to_text,
    to_time,
)
from aitne.adapters.schedulers._slurm.job_states import job_state
from aitne.adapters.schedulers._slurm.squeue_parser import node_names
from aitne.adapters.schedulers._slurm.times import to_signal_number
from aitne.core.jobs.states import JobState
from aitne.core.ports.scheduler import SchedulerJob


def to_scheduler_jobs(record: Mapping[str, Any]) -> Sequence[SchedulerJob]:
    """Convert a record of pyslurm to records of the scheduler port: none for a job that was not
    submitted through the platform, one for all pending tasks of an array together, otherwise one.

    Raises:
        SchedulerUnavailable: libslurm truncated the list of tasks of a large array.
    """
    ours = job_comment.parse_comment(to_text(record.get("comment")))
    if ours is None:
        return ()
    job = _to_scheduler_job(record, *ours)
    array, task = _parse_number(record.get("array_id")), _parse_number(record.get("array_task_id"))
    if not array:
        return (job,)
    if task is not None:
        return (make_task_record(job, array, task),)
    waiting = to_text(record.get("array_tasks_waiting"))
    if not waiting:
        # pyslurm reports zero as "none" (u32_parse in its utils/uint.pyx).
        return (make_task_record(job, array, 0),)
    return (make_array_record(job, array, waiting, source="pyslurm"),)


def has_doubtful_exit_code(job: SchedulerJob) -> bool:
    """Return True if the job's real exit code may be 128 more than pyslurm reports.

    ``_get_exit_code`` in pyslurm's ``utils/helpers.pyx`` subtracts 128 from all codes from 128 on.
    """
    return job.exit_code is not None and job.state is not JobState.COMPLETED


def _to_scheduler_job(record: Mapping[str, Any], job_id: Any, attempt: int) -> SchedulerJob:
    started, ended_at = _parse_time(record.get("start_time")), _parse_time(record.get("end_time"))
    reason = to_text(record.get("state_reason")) or "None"
    nodes = node_names(to_text(record.get("allocated_nodes")))
    words = re.split(r"[,+|]", to_text(record.get("state")))
    by = _parse_number(record.get("exit_code_signal")) or None
    signal = to_signal_number(by)
    state, termination = job_state(words, reason, begun=bool(nodes), signal=signal)
    waits = state is JobState.QUEUED
    begun = bool(nodes) and not waits
    code = _parse_number(record.get("exit_code")) if by is None else None
    over = state.is_terminal and begun
    minutes = _parse_number(record.get("time_limit"))
    dependency = _format_dependency(record.get("dependencies"))
    # Each field was checked above; validation of 10,000 records takes half a second.
    return SchedulerJob.model_construct(
        scheduler_id=str(record.get("id", "")),
        job_id=job_id,
        attempt=attempt,
        array_task_id=None,
        account=to_text(record.get("user_name")) or None,
        state=state,
        reason=termination,
        pending_reason=pending_reasons.format_pending_reason(reason, dependency) if waits else None,
        restart_count=_parse_number(record.get("requeue_count")) or 0,
        exit_code=code if over else None,
        signal=signal if over else None,
        nodes=nodes,
        partition=to_text(record.get("partition")) or None,
        priority=_parse_number(record.get("priority")),
        submitted_at=_parse_time(record.get("submit_time")),
        # For a waiting job it is the planned start; for a job that never ran it has no meaning.
        started_at=started if begun else None,
        # For a running job it is the end of its time limit.
        ended_at=ended_at if state.is_terminal else None,
        expected_start_at=started if waits else None,
        time_limit_s=None if minutes is None else minutes * 60,
        raw=dict(record),
    )


def _format_dependency(value: object) -> str:
    """Return a job's dependency in the format of squeue, such as ``afterok:12(unfulfilled)``."""
    if not isinstance(value, Mapping):
        return ""
    kinds = ((kind, jobs) for kind, jobs in value.items() if isinstance(jobs, list))
    return ",".join(f"{kind}:{job}" for kind, jobs in kinds for job in jobs)


def _parse_number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_time(value: object) -> datetime | None:
    return to_time(_parse_number(value))
