"""Parser of sacct's records of jobs that have left the queue
(https://slurm.schedmd.com/sacct.html).

Jobs are queried by name, which only the platform's jobs have: comments are stored only at sites
that enable it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aitne.adapters.schedulers._slurm.job_comment import parse_job_name
from aitne.adapters.schedulers._slurm.job_states import job_state
from aitne.adapters.schedulers._slurm.squeue_parser import SEPARATOR, node_names
from aitne.adapters.schedulers._slurm.times import parse_exit, parse_minutes, parse_time
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import parse_array

_CANCELLED_BY = re.compile(r"CANCELLED by ([0-9]{1,10})")
FIELDS = (
    "JobName",
    "JobID",
    "JobIDRaw",
    "User",
    "State",
    "ExitCode",
    "NodeList",
    "Partition",
    "Priority",
    "Submit",
    "Start",
    "End",
    "TimelimitRaw",
    "Reason",
)


def parse_ended_jobs(output: str) -> list[SchedulerJob]:
    """Return the ended jobs and tasks in the output of ``sacct --duplicates``, the last run of
    each.

    If slurmctld loses a job in a crash, accounting may report it as waiting or running forever, so
    a record without an end is ignored. So is one that slurmctld has written off. A restart adds a record under the same ID. Of an exit code above 128, sacct prints
    the part above 128; the agent's own outcome beside the fence has the full code.
    """
    last: dict[tuple[str, str], SchedulerJob] = {}
    runs: dict[tuple[str, str], int] = {}
    for line in output.splitlines():
        values = line.split(SEPARATOR)
        if len(values) != len(FIELDS):
            continue
        for job in _parse_jobs(dict(zip(FIELDS, values, strict=True))):
            key = (job.raw["JobName"], job.scheduler_id)
            runs[key] = runs.get(key, 0) + 1
            if key not in last or _get_submit_time(job) >= _get_submit_time(last[key]):
                last[key] = job
    return [
        job.model_copy(update={"restart_count": runs[key] - 1})
        for key, job in last.items()
        if job.state.is_terminal
        and job.ended_at is not None
        and not is_written_off(job.raw["State"], job.raw["Reason"])
    ]


def parse_canceller_uid(job: SchedulerJob) -> int | None:
    """Return the uid of the account that cancelled the job, as in ``CANCELLED by 1001``; None if
    the record does not contain it.
    """
    match = _CANCELLED_BY.fullmatch(job.raw["State"])
    return None if match is None else int(match[1])


def is_written_off(state: str, reason: str) -> bool:
    """Return True for the record of a job that was cancelled neither by a user (``CANCELLED by
    1001``) nor because its dependency failed: a slurmctld that starts without its saved state
    closes all open records of accounting, whatever became of the jobs.
    """
    return state == "CANCELLED" and not reason.startswith("Dependency")


def _get_submit_time(job: SchedulerJob) -> float:
    return job.submitted_at.timestamp() if job.submitted_at else 0.0


def _parse_jobs(fields: dict[str, str]) -> Iterator[SchedulerJob]:
    ours = parse_job_name(fields["JobName"])
    if ours is None:
        return
    nodes = node_names(fields["NodeList"])
    code, signal = parse_exit(fields["ExitCode"])
    state, reason = job_state(
        (fields["State"],), fields["Reason"], begun=bool(nodes), signal=signal
    )
    over, begun = state.is_terminal, bool(nodes)
    if not (over and begun):
        code = signal = None
    for number, task in _expand_job_id(fields["JobID"]):
        yield SchedulerJob(
            scheduler_id=number,
            job_id=ours[0],
            attempt=ours[1],
            array_task_id=task,
            # The last task to start takes the ID of the array.
            is_last_task=task is not None
            and fields["JobIDRaw"] == number.partition("_")[0]
            and begun,
            account=fields["User"] or None,
            state=state,
            reason=reason,
            exit_code=code,
            signal=signal,
            nodes=nodes,
            partition=fields["Partition"] or None,
            priority=int(fields["Priority"]) if fields["Priority"].isdecimal() else None,
            submitted_at=parse_time(fields["Submit"]),
            started_at=parse_time(fields["Start"]) if begun else None,
            ended_at=parse_time(fields["End"]) if over else None,
            time_limit_s=parse_minutes(fields["TimelimitRaw"]),
            raw=fields,
        )


def _expand_job_id(job_id: str) -> Iterator[tuple[str, int | None]]:
    """Yield a pair for each task that a job ID in the output of sacct stands for: the task's ID,
    and its array index (None: the job is not an array).

    ``4`` is a job without tasks, ``4_2`` is task 2 of array 4, and ``4_[0-2,7%1]`` are the tasks of
    array 4 that never started.
    """
    number, underscore, rest = job_id.partition("_")
    if not underscore:
        yield number, None
    elif rest.isdecimal():
        yield job_id, int(rest)
    else:
        try:
            indices = parse_array(rest.removeprefix("[").removesuffix("]")).indices
        except ValueError:
            return  # "4_[0-2...]", truncated: the tasks are unknown
        for index in indices:
            yield f"{number}_{index}", index
