"""Parser of sacct's records of jobs that the queue no longer holds
(https://slurm.schedmd.com/sacct.html).

Jobs are queried by name, which only the platform's jobs have: comments are stored only at sites
that enable it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aitne.adapters.schedulers._slurm.identity import of_name
from aitne.adapters.schedulers._slurm.queue import SEPARATOR, node_names
from aitne.adapters.schedulers._slurm.states import job_state
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


def parse(output: str) -> list[SchedulerJob]:
    """Return the ended jobs and tasks in the output of ``sacct --duplicates``, the last run of
    each.

    Accounting may report forever that a job waits or runs that slurmctld lost in a crash, so a
    record without an end is ignored. So is the end of a job that never began and that no user
    cancelled: a slurmctld that starts without its saved state closes what accounting still had
    open. A restart adds a record under the same ID. Of an exit code above 128, sacct prints the
    part above 128; the agent's own outcome beside the fence has the full code.
    """
    last: dict[tuple[str, str], SchedulerJob] = {}
    runs: dict[tuple[str, str], int] = {}
    for line in output.splitlines():
        values = line.split(SEPARATOR)
        if len(values) != len(FIELDS):
            continue
        for job in _jobs(dict(zip(FIELDS, values, strict=True))):
            key = (job.raw["JobName"], job.scheduler_id)
            runs[key] = runs.get(key, 0) + 1
            if key not in last or _when(job) >= _when(last[key]):
                last[key] = job
    return [
        job.model_copy(update={"restart_count": runs[key] - 1})
        for key, job in last.items()
        if job.state.terminal and job.ended_at is not None and not _written_off(job)
    ]


def canceller(job: SchedulerJob) -> int | None:
    """Return the uid of the account that cancelled the job, as in ``CANCELLED by 1001``; None: the
    record does not say.
    """
    match = _CANCELLED_BY.fullmatch(job.raw["State"])
    return None if match is None else int(match[1])


def _written_off(job: SchedulerJob) -> bool:
    """Return True for a job that was cancelled without a user and not because its dependency
    failed: a user who cancels is named, as in ``CANCELLED by 1001``.
    """
    by_nobody = job.raw["State"] == "CANCELLED" and not job.nodes
    return by_nobody and not job.raw["Reason"].startswith("Dependency")


def _when(job: SchedulerJob) -> float:
    return job.submitted_at.timestamp() if job.submitted_at else 0.0


def _jobs(said: dict[str, str]) -> Iterator[SchedulerJob]:
    ours = of_name(said["JobName"])
    if ours is None:
        return
    nodes = node_names(said["NodeList"])
    code, signal = parse_exit(said["ExitCode"])
    state, why = job_state((said["State"],), said["Reason"], begun=bool(nodes), signal=signal)
    over, begun = state.terminal, bool(nodes)
    if not (over and begun):
        code = signal = None
    for number, task in _tasks(said["JobID"]):
        yield SchedulerJob(
            scheduler_id=number,
            job_id=ours[0],
            attempt=ours[1],
            array_task_id=task,
            account=said["User"] or None,
            state=state,
            reason=why,
            exit_code=code,
            signal=signal,
            nodes=nodes,
            partition=said["Partition"] or None,
            priority=int(said["Priority"]) if said["Priority"].isdecimal() else None,
            submitted_at=parse_time(said["Submit"]),
            started_at=parse_time(said["Start"]) if begun else None,
            ended_at=parse_time(said["End"]) if over else None,
            time_limit_s=parse_minutes(said["TimelimitRaw"]),
            raw=said,
        )


def _tasks(job_id: str) -> Iterator[tuple[str, int | None]]:
    """Yield ``4`` itself; for ``4_2`` task 2; for ``4_[0-2,7%1]``, tasks that never began, each of
    them.
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
            return  # "4_[0-2...]", shortened: the tasks cannot be told
        for index in indices:
            yield f"{number}_{index}", index
