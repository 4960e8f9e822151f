"""Conversion of slurmrestd's records of jobs (v0.0.42) to the platform's terms."""

from __future__ import annotations

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

_RAW = (
    "job_id", "array_job_id", "array_task_id", "job_state", "state_reason", "state_description",
    "exit_code", "restart_cnt", "nodes", "partition", "account", "qos", "priority", "user_name",
    "submit_time", "start_time", "end_time", "time_limit", "dependency", "tres_req_str",
    "tres_alloc_str", "comment", "name",
)  # fmt: skip
"""Fields of a record that are stored in ``raw``; a whole record has 8 KB."""


def to_scheduler_jobs(record: Mapping[str, Any]) -> Sequence[SchedulerJob]:
    """Convert a record of slurmrestd to records of the scheduler port: none for a job that was not
    submitted through the platform, one for all tasks of an array of which none has started,
    otherwise one.

    Raises:
        SchedulerUnavailable: Slurm truncated the list of tasks of a large array.
    """
    ours = job_comment.parse_comment(to_text(record.get("comment")))
    if ours is None:
        return ()
    job = _to_scheduler_job(record, *ours)
    array, task = (
        _parse_number(record.get("array_job_id")),
        _parse_number(record.get("array_task_id")),
    )
    if not array:
        return (job,)
    if task is not None:
        return (make_task_record(job, array, task),)
    tasks = to_text(record.get("array_task_string"))
    return (make_array_record(job, array, tasks, source="slurmrestd"),)


def _to_scheduler_job(record: Mapping[str, Any], job_id: Any, attempt: int) -> SchedulerJob:
    started, ended_at = _parse_time(record.get("start_time")), _parse_time(record.get("end_time"))
    reason = to_text(record.get("state_reason")) or "None"
    nodes = node_names(to_text(record.get("nodes")))
    code, signal = _parse_exit_status(record.get("exit_code"))
    words = _to_words(record.get("job_state"))
    state, termination = job_state(words, reason, begun=bool(nodes), signal=signal)
    waits = state is JobState.QUEUED
    begun = bool(nodes) and not waits
    if not (state.is_terminal and begun):
        code = signal = None
    limit = _parse_number(record.get("time_limit"))
    return SchedulerJob(
        scheduler_id=str(record.get("job_id", "")),
        job_id=job_id,
        attempt=attempt,
        account=to_text(record.get("user_name")) or None,
        state=state,
        reason=termination,
        pending_reason=pending_reasons.format_pending_reason(
            reason, to_text(record.get("dependency"))
        )
        if waits
        else None,
        restart_count=_parse_number(record.get("restart_cnt")) or 0,
        exit_code=code,
        signal=signal,
        nodes=nodes,
        partition=to_text(record.get("partition")) or None,
        priority=_parse_number(record.get("priority")),
        submitted_at=_parse_time(record.get("submit_time")),
        # For a waiting job it is the planned start; for a job that never ran it has no meaning.
        started_at=started if begun else None,
        # For a running job it is the end of its time limit.
        ended_at=ended_at if state.is_terminal else None,
        expected_start_at=started if waits else None,
        time_limit_s=None if limit is None else limit * 60,
        raw={key: record[key] for key in _RAW if key in record},
    )


def _to_words(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return (value,)
    return [str(word) for word in value] if isinstance(value, list) else ()


def _parse_number(value: object) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _parse_time(value: object) -> datetime | None:
    return to_time(_parse_number(value))


def _parse_exit_status(value: object) -> tuple[int | None, int | None]:
    """Return the script's (exit code, signal), at most one of them not None. Numbers above the real
    signals, such as 125, are codes of Slurm and not returned.
    """
    if not isinstance(value, Mapping):
        return None, None
    signal = value.get("signal")
    by = _parse_number(signal.get("id")) if isinstance(signal, Mapping) else None
    if by:
        return None, to_signal_number(by)
    code = _parse_number(value.get("return_code"))
    return (code, None) if code is not None and 0 <= code <= 255 else (None, None)
