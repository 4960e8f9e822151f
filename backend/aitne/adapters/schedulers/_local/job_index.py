"""Jobs and tasks in the memory of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum

from aitne.adapters.schedulers._local.job_records import LocalJobRecord, TaskOutcome, TaskState
from aitne.adapters.schedulers._local.node_resources import (
    Demand,
    Grant,
    Owner,
    RunningTask,
    WaitingTask,
)
from aitne.adapters.schedulers._local.runner_launcher import ProcessIdentity
from aitne.core.jobs.states import STATE_OF_REASON, JobState, TerminationReason
from aitne.core.placement.leaf_selection import make_tree
from aitne.core.ports.scheduler import SchedulerJob, SubmitRequest


class TaskPhase(Enum):
    """Phase in the life cycle of a task of the ``local`` scheduler."""

    WAITING = "waiting"
    LAUNCHING = "launching"
    RUNNING = "running"
    SETTLING = "settling"
    """The runner has ended; the run's files are being read or removed."""
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class LocalTask:
    """Unit that the ``local`` scheduler starts: a job that is not an array, or one task of an
    array.
    """

    job: LocalJob
    number: int
    index: int | None
    phase: TaskPhase = TaskPhase.WAITING
    grants: tuple[Grant, ...] = ()
    runs: int = 0
    """Number of starts; the current run is the last one."""
    restart_count: int = 0
    identity: ProcessIdentity | None = None
    pidfd: int | None = None
    started_at: datetime | None = None
    time_limit_s: int = 0
    cancelled: bool = False
    held: bool = False
    ending: TaskOutcome | None = None
    not_before: datetime | None = None
    startable_since: datetime | None = None
    """Time since which it waits for resources only; None: it has not waited for them."""
    trouble: str | None = None
    """Reason why the last start failed, if another attempt will follow."""
    last_row: SchedulerJob | None = None
    """Last record for the scheduler port of a task that is pending or has ended. It is reused (the
    same object) while nothing changes.
    """

    @property
    def scheduler_id(self) -> str:
        """Return the task's ID at the scheduler port: ``12``, or ``12_3`` for a task of an array."""
        base = str(self.job.record.number)
        return base if self.index is None else f"{base}_{self.index}"

    @property
    def has_ended(self) -> bool:
        """Return True if the task has ended and will not be requeued."""
        return self.phase is TaskPhase.ENDED

    @property
    def holds_slots(self) -> bool:
        """Return True if the allocated resources of the task are in use."""
        return self.phase in (TaskPhase.LAUNCHING, TaskPhase.RUNNING, TaskPhase.SETTLING)

    def to_state(self) -> TaskState:
        """Return the state of the task as it is stored on disk."""
        closed = self.runs - 1 if self.holds_slots else self.runs
        return TaskState(
            restart_count=self.restart_count,
            closed_runs=closed,
            ending=self.ending,
            held=self.held,
        )

    def to_record(self, pending: str | None, expected_start_at: datetime | None) -> SchedulerJob:
        """Return the task as a record of the scheduler port."""
        ending = self.ending
        if ending is not None:
            state = STATE_OF_REASON[ending.reason]
        elif self.phase is TaskPhase.WAITING:
            state = JobState.QUEUED
        elif self.phase is TaskPhase.LAUNCHING:
            state = JobState.STARTING
        elif self.phase is TaskPhase.RUNNING:
            state = JobState.RUNNING
        else:
            state = JobState.COMPLETING
        waits = self.phase is TaskPhase.WAITING
        return SchedulerJob(
            scheduler_id=self.scheduler_id,
            job_id=self.job.record.request.job_id,
            attempt=self.job.record.request.attempt,
            array_task_id=self.index,
            account=self.job.record.request.account,
            state=state,
            reason=None if ending is None else ending.reason,
            pending_reason=pending if waits else None if ending is None else ending.message,
            restart_count=self.restart_count,
            exit_code=None if ending is None else ending.exit_code,
            signal=None if ending is None else ending.signal,
            nodes=tuple(grant.node for grant in self.grants),
            submitted_at=self.job.record.submitted_at,
            started_at=self.started_at if ending is None else ending.started_at,
            ended_at=None if ending is None else ending.ended_at,
            expected_start_at=expected_start_at if waits else None,
            time_limit_s=self.time_limit_s,
        )

    def leaf_wait_ends_at(self) -> datetime | None:
        """Return the time until which the pending task waits for the leaves that it requests; None:
        without a limit, or it does not wait for that.
        """
        wait_s = self.job.record.request.max_leaves_wait_s
        if self.job.demand.max_leaves is None or wait_s is None or self.startable_since is None:
            return None
        return self.startable_since + timedelta(seconds=wait_s)

    def to_waiting_task(self, now: datetime) -> WaitingTask:
        """Return the pending task as input of the planner."""
        record, demand = self.job.record, self.job.demand
        until = self.leaf_wait_ends_at()
        if until is not None and until <= now:
            demand = replace(demand, max_leaves=None)
        group = record.number if record.throttle is not None else 0
        return WaitingTask(self.number, demand, group, record.throttle, self.job.owner)

    def to_running_task(self, now: datetime, grace_s: float) -> RunningTask:
        """Return the running task as input of the planner. It occupies its resources until its time
        limit plus ``grace_s`` seconds, when it is killed.
        """
        record = self.job.record
        started = self.started_at or now
        ends = started + timedelta(seconds=self.time_limit_s + grace_s)
        group = record.number if record.throttle is not None else 0
        return RunningTask(self.job.demand, self.grants, ends.timestamp(), group, self.job.owner)


@dataclass(slots=True, eq=False)
class LocalJob:
    """Submitted job and its tasks; a job that is no array has one task."""

    record: LocalJobRecord
    demand: Demand = field(init=False)
    tasks: list[LocalTask] = field(init=False)
    by_index: dict[str, LocalTask] = field(init=False)
    """The tasks by their array index as text."""

    def __post_init__(self) -> None:
        request = self.record.request
        wants = request.resources
        self.demand = Demand(
            wants.nodes,
            wants.cpu,
            wants.memory_bytes,
            wants.gpu.count,
            wants.gpu.type,
            request.time_limit_s,
            required=request.nodes,
            exclude=frozenset(request.exclude),
            max_leaves=request.max_leaves,
            tree=make_tree(request.node_paths or {}),
        )
        indices: tuple[int | None, ...] = self.record.indices or (None,)
        self.tasks = [
            LocalTask(
                self,
                self.record.number + offset,
                index,
                time_limit_s=request.time_limit_s,
                held=request.hold,
            )
            for offset, index in enumerate(indices)
        ]
        self.by_index = {str(task.index): task for task in self.tasks}

    @property
    def owner(self) -> Owner:
        """Project and user of the job, whose limits apply to it."""
        return self.record.request.project, self.record.request.owner

    @property
    def has_ended(self) -> bool:
        """Return True if every task has ended."""
        return all(task.has_ended for task in self.tasks)

    def last_ended_at(self) -> datetime | None:
        """Return the time when the last task ended; None if a task has not ended."""
        if not self.has_ended:
            return None
        return max((task.ending.ended_at for task in self.tasks if task.ending), default=None)


class JobIndex:
    """Index of all jobs in memory by number, by UUID, and by scheduler ID (``12`` or ``12_3``)."""

    def __init__(self) -> None:
        self.jobs: dict[int, LocalJob] = {}

    def add(self, job: LocalJob) -> None:
        """Add a job to the index."""
        self.jobs[job.record.number] = job

    def tasks(self) -> Iterator[LocalTask]:
        """Iterate over every task of every job."""
        for job in self.jobs.values():
            yield from job.tasks

    def select(self, scheduler_id: str) -> list[LocalTask]:
        """Return the tasks that a scheduler ID names: one task, or all tasks of an array; empty if
        the ID is unknown.
        """
        number, underscore, index = scheduler_id.partition("_")
        if not (number.isascii() and number.isdecimal()) or len(number) > 18:
            return []
        job = self.jobs.get(int(number))
        if job is None:
            return []
        if not underscore:
            return list(job.tasks)
        task = job.by_index.get(index)
        return [] if task is None else [task]

    def dependents(self, number: int) -> list[LocalJob]:
        """Return the jobs that have not ended and depend on the job with this number."""
        return [
            job
            for job in self.jobs.values()
            if not job.has_ended
            and any(
                name.partition("_")[0] == str(number)
                for name in dependencies_of(job.record.request)
            )
        ]


def dependencies_of(request: SubmitRequest) -> tuple[str, ...]:
    """Return the scheduler IDs of all jobs on which the request depends."""
    return request.after + request.afterany + request.afternotok + request.aftercorr


def find_open_dependencies(index: JobIndex, task: LocalTask) -> tuple[list[str], bool]:
    """Return the IDs of the jobs that have to end before the task starts, and True if it can never
    start because a dependency failed.
    """
    request = task.job.record.request
    # The IDs, the tasks behind each, and which ends satisfy the dependency.
    groups = [
        *((name, index.select(name), True, False) for name in request.after),
        *((name, index.select(f"{name}_{task.index}"), True, False) for name in request.aftercorr),
        *((name, index.select(name), True, True) for name in request.afterany),
        *((name, index.select(name), False, True) for name in request.afternotok),
    ]
    open_ones = []
    for name, tasks, by_success, by_failure in groups:
        reasons = [other.ending.reason if other.ending else None for other in tasks]
        failed = any(reason not in (None, TerminationReason.COMPLETED) for reason in reasons)
        if not tasks or (failed and not by_failure):
            return [], True
        if None in reasons:
            open_ones.append(name)
        elif not failed and not by_success:
            return [], True
    return open_ones, False
