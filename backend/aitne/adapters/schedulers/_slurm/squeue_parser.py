"""Parser of squeue's records (``squeue --Format``, https://slurm.schedmd.com/squeue.html).

Comments and names of other users' jobs can contain any characters, including newlines and
separators. So a record ends with a mark that is random for every query. Its fields are separated by
a character that can only add fields, and a record is one of the platform's only if it has exactly
the expected number of fields and a complete comment of the platform.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from aitne.adapters.schedulers._slurm.common_record_conversion import make_tasks_record
from aitne.adapters.schedulers._slurm.job_comment import parse_comment
from aitne.adapters.schedulers._slurm.job_states import job_state
from aitne.adapters.schedulers._slurm.pending_reasons import format_pending_reason
from aitne.adapters.schedulers._slurm.times import parse_exit, parse_limit, parse_time
from aitne.core.jobs.states import JobState
from aitne.core.ports.scheduler import SchedulerJob
from aitne_train.topology.hostlist import expand_hostlist

FIELDS = (
    "Comment",
    "JobArrayID",
    "JobID",
    "ArrayTaskID",
    "UserName",
    "State",
    "Reason",
    "NodeList",
    "Partition",
    "PriorityLong",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "exit_code",
    "RestartCnt",
    "Dependency",
)
OPTIONAL = frozenset(
    {"exit_code", "RestartCnt", "Dependency", "PriorityLong", "tres-alloc", "tres-per-node"}
)
"""Fields that are omitted if a release of squeue does not have them."""
SEPARATOR = "\x1f"


def new_mark() -> str:
    """Return a random text that marks the end of each record in the output of one squeue. It does
    not begin with a digit, which squeue would read as a field's width.
    """
    return f"\x1e{secrets.token_hex(8)}"


def format_option(fields: Sequence[str], mark: str) -> str:
    """Return the value of squeue's ``--Format``: each field at full length (size 0), then
    ``mark``.
    """
    *first, last = fields
    return ",".join([*(f"{field}:0{SEPARATOR}" for field in first), f"{last}:0{mark}"])


def split_records(output: str, mark: str) -> Iterator[str]:
    """Yield the records in the output of squeue, each without its ``mark``."""
    return iter(output.split(f"{mark}\n")[:-1])


def parse_record(record: str, fields: Sequence[str]) -> SchedulerJob | None:
    """Parse one record; return None if the job was not submitted through the platform."""
    values = record.split(SEPARATOR)
    if len(values) != len(fields):
        return None
    row = dict(zip(fields, values, strict=True))
    ours = parse_comment(row["Comment"])
    if ours is None:
        return None
    job = _to_scheduler_job(ours, row)
    if row["ArrayTaskID"] in ("", "N/A"):
        return job
    try:
        return make_tasks_record(job, row["JobArrayID"].partition("_")[0], row["ArrayTaskID"])
    except ValueError:
        return job  # more tasks than an array of the platform can have


def _to_scheduler_job(identity: tuple[Any, int], row: dict[str, str]) -> SchedulerJob:
    nodes = node_names(row["NodeList"])
    reason = row["Reason"]
    code, signal = parse_exit(row.get("exit_code", ""))
    state, termination = job_state((row["State"],), reason, begun=bool(nodes), signal=signal)
    over, waits = state.is_terminal, state is JobState.QUEUED
    begun = bool(nodes) and not waits
    if not (over and begun):
        code = signal = None
    start = parse_time(row["StartTime"])
    count, priority = row.get("RestartCnt", ""), row.get("PriorityLong", "")
    # Each field was checked above; validation of 10,000 records takes half a second.
    return SchedulerJob.model_construct(
        scheduler_id=row["JobArrayID"],
        job_id=identity[0],
        attempt=identity[1],
        account=row["UserName"],
        state=state,
        reason=termination,
        pending_reason=format_pending_reason(reason, row.get("Dependency", "")) if waits else None,
        restart_count=int(count) if count.isdecimal() else 0,
        exit_code=code,
        signal=signal,
        nodes=nodes,
        partition=row["Partition"] or None,
        priority=int(priority) if priority.isdecimal() else None,
        submitted_at=parse_time(row["SubmitTime"]),
        started_at=start if begun else None,
        ended_at=parse_time(row["EndTime"]) if over else None,
        expected_start_at=start if waits else None,
        time_limit_s=parse_limit(row["TimeLimit"]),
        raw=row,
    )


def node_names(text: str) -> tuple[str, ...]:
    """Return the node names in a list such as ``n[1-2]``; empty for ``(null)``, ``None assigned``
    and an empty text.
    """
    if text in ("", "(null)", "N/A", "None assigned"):
        return ()
    try:
        return tuple(expand_hostlist(text))
    except ValueError:
        return ()


class SqueueReader:
    """Parser of successive outputs of squeue. For a record that has not changed since the previous
    output it returns the same object.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = tuple(fields)
        self._known: dict[str, SchedulerJob | None] = {}

    def read(self, output: str, mark: str) -> list[SchedulerJob]:
        """Return the records of all of the platform's jobs in one output of squeue; ``mark`` ends
        each record.
        """
        previous_jobs, self._known = self._known, {}
        for record in split_records(output, mark):
            self._known[record] = (
                previous_jobs[record]
                if record in previous_jobs
                else parse_record(record, self._fields)
            )
        return [job for job in self._known.values() if job is not None]
