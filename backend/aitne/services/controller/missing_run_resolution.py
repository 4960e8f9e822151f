"""State of runs that the scheduler has no record of or refused, from the fence and the agent's
record in the job folder.

A record that is absent from one answer proves nothing. If a search does not find the run either,
the fence is examined. If it is free, the platform takes it, so that this attempt can never begin,
and starts the next attempt. Otherwise the attempt ends as the agent recorded it; without a record,
it ends once its node is known to be down or the agent has been silent for ``SILENCE_S`` seconds.

If the scheduler has restarted since the run began, it has lost its state, or a part of it, and with
it the run, which then was not cancelled by a user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aitne.core.errors import NotAllowed, Unavailable
from aitne.core.jobs.states import LIVE, JobState, TerminationReason
from aitne.core.models.cluster import Cluster, NodeState
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.job_files import CLOSED, Fence, JobFiles, JobLocation, ProgramOutcome
from aitne.core.ports.scheduler import Scheduler, SchedulerJob
from aitne.services.controller.changes_from_records import format_nodes, state_from_agent
from aitne.services.controller.run_identification import make_run, select_records
from aitne.store import Store

log = logging.getLogger(__name__)

_TAKEN_OUT = "Cancelled in the scheduler while it waited, not through the platform."
SILENCE_S = 300.0
"""Seconds without a report after which the agent of a run that the scheduler has no record of
counts as dead.
"""
CLOCKS_DIFFER = timedelta(seconds=5)
"""Maximum difference of the scheduler's clock that is tolerated."""
SILENCE_AFTER_RESTART_S = 60.0
"""The same after the scheduler has restarted, once all nodes of the run answer it again: a node ends
the processes of runs that the scheduler does not know.
"""

MOST_ATTEMPTS = 5
"""Maximum number of attempts of a job whose runs the scheduler ended before they began.

There is a limit because the job may be the cause.
"""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Outcome of a run: the next state of its job and the changes to store.

    ``again`` is True if the run never began, so that the job is submitted again even if its retry
    policy permits no retry.
    """

    state: JobState
    changes: JobChanges
    again: bool = False
    lost_at: datetime | None = None
    """Time at which the scheduler restarted and lost this run; None: it did not."""


@dataclass(frozen=True, slots=True)
class FenceOwner:
    """Result of ``MissingRunResolver.resolve_duplicate``: the scheduler's record from which the state of
    the job follows, usually the record of the run that holds the fence.
    """

    record: SchedulerJob


class MissingRunResolver:
    """Component that finds out how a run ended from the files in its job folder, when the scheduler
    has no record of the run or a wrong one.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        files: JobFiles,
        place: Callable[[Job], JobLocation],
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._files = files
        self._place = place
        self._clock = clock

    async def resolve_missing(
        self, job: Job, since: datetime, cluster: Cluster, seen_at: datetime | None = None
    ) -> RunVerdict | None:
        """Determine how a run ended if the scheduler has no record of it, even after a separate
        search.

        Returns the final state with the changes to store; None: the outcome is not certain yet.
        ``since`` is the time of the first answer of the scheduler that lacked the record, ``seen_at``
        that of the last one that had it; None: unknown.

        Raises:
            Unavailable: the job folder cannot be read. This proves nothing about the run.
        """
        place, task = self._place(job), job.array_task_id
        fence = await self._files.close_fence(place, task)
        if fence.owner == CLOSED:
            if await self._was_cancelled(job):
                asked = job.cancel_requested_at is not None
                changes = JobChanges(
                    reason=job.reason or TerminationReason.CANCELLED,
                    message=job.message if asked else _TAKEN_OUT,
                    ended_at=self._clock(),
                )
                return RunVerdict(JobState.CANCELLED, changes)
            return self._resolve_never_started(job)
        outcome = await self._files.read_outcome(place, task)
        if outcome is not None and _is_written_by(outcome, fence):
            log.info("Job %s ended while the scheduler had no record of it.", job.id)
            if outcome.interrupted and job.cancel_requested_at is None:
                lost_at = _find_restart_time(job, cluster, seen_at)
                message = "The scheduler ended it after losing its record."
                lost = JobChanges(
                    reason=TerminationReason.LOST,
                    message=message if lost_at is None else _lost_message(lost_at),
                    ended_at=outcome.ended_at,
                )
                return RunVerdict(JobState.LOST, lost, lost_at=lost_at)
            return RunVerdict(*state_from_agent(job, outcome))
        return await self._resolve_dead(job, since, cluster, seen_at)

    async def lost_since_backup(self, job: Job, verdict: RunVerdict) -> RunVerdict:
        """Return the outcome of a run of which a restored platform finds no trace: the next attempt
        if the scheduler has a record of it, otherwise an unknown end.

        Raises:
            SchedulerUnavailable: the scheduler does not answer.
        """
        following = make_run(job).model_copy(
            update={"attempt": job.attempt + 1, "scheduler_id": None}
        )
        if await self._scheduler.find_records([following]):
            return RunVerdict(verdict.state, verdict.changes, again=True)
        message = (
            "The platform was restored from a backup, and the scheduler has no record of this job "
            "any more, so its end is not known. Check its results before you submit it again."
        )
        return RunVerdict(verdict.state, verdict.changes.model_copy(update={"message": message}))

    async def resolve_duplicate(
        self, job: Job, record: SchedulerJob, since: datetime, cluster: Cluster
    ) -> RunVerdict | FenceOwner | None:
        """Determine the state of a job whose run ended with the agent's exit code for "another run
        of this attempt has already started the program" (it holds the fence).

        Returns a ``FenceOwner`` with the scheduler's record from which the state follows: the
        record of the other run or, if the program itself used this exit code, ``record``. If the
        other run has ended and the scheduler has no record of it, returns its final state. None:
        the outcome is not certain yet.

        Raises:
            Unavailable: the job folder cannot be read.
            SchedulerUnavailable: the scheduler does not answer.
        """
        place, task = self._place(job), job.array_task_id
        fence = await self._files.read_fence(place, task)
        if fence is None:
            return FenceOwner(record)
        if fence.owner == CLOSED:
            return self._resolve_never_started(job)
        outcome = await self._files.read_outcome(place, task)
        if outcome is not None and outcome.owner == fence.owner:
            same_run = (
                outcome.owner == record.scheduler_id and outcome.exit_code == record.exit_code
            )
            return FenceOwner(record) if same_run else RunVerdict(*state_from_agent(job, outcome))
        if fence.owner == record.scheduler_id:
            # An earlier start with the same ID: slurmctld assigned it twice after losing its state.
            return await self._resolve_dead(job, since, cluster)
        run = make_run(job).model_copy(update={"scheduler_id": fence.owner})
        for other in select_records(job, await self._scheduler.find_records([run])):
            if other.scheduler_id == fence.owner:
                return FenceOwner(other)
        return await self._resolve_dead(job, since, cluster)

    async def check_reported_end(self, job: Job, record: SchedulerJob) -> RunVerdict | None:
        """Check against the agent's files whether the scheduler is right that a run has ended or
        was started too often.

        Returns the actual outcome of the run; None if the scheduler's record is correct. After a
        crash, Slurm may start jobs that had already ended, and end or restart jobs whose old ID it
        has assigned to other jobs. The agent's outcome file then shows how the run ended. A run
        that had nodes but created no fence was not cancelled on request.

        Raises:
            Unavailable: the job folder cannot be read.
        """
        place, task = self._place(job), job.array_task_id
        fence = await self._files.read_fence(place, task)
        had_nodes = record.nodes or record.reason is TerminationReason.START_FAILED
        if fence is None and record.state.is_terminal and had_nodes and job.attempt < MOST_ATTEMPTS:
            fence = await self._files.close_fence(place, task)
        if fence is None:
            return None
        if fence.owner == CLOSED:
            return self._resolve_never_started(job)
        outcome = await self._files.read_outcome(place, task)
        if outcome is None or outcome.owner != fence.owner or outcome.interrupted:
            return None
        return RunVerdict(*state_from_agent(job, outcome))

    async def resolve_unusable_folder(self, job: Job) -> RunVerdict | None:
        """Return the outcome of a run that ended with the agent's exit code for "the job folder
        cannot be used".

        None if the program itself used this exit code, or if the job has been submitted too often.
        Raises ``Unavailable`` if the job folder cannot be read.
        """
        if job.attempt >= MOST_ATTEMPTS:
            return None
        fence = await self._files.close_fence(self._place(job), job.array_task_id)
        if fence.owner != CLOSED:
            return None
        return self._resolve_never_started(
            job, "Its folder could not be used on the allocated node."
        )

    async def read_agent_outcome(self, job: Job, record: SchedulerJob) -> ProgramOutcome | None:
        """Return how the run ended according to its agent's outcome file; None if there is no such
        file, it belongs to another run, or it cannot be read now.
        """
        try:
            outcome = await self._files.read_outcome(self._place(job), job.array_task_id)
        except (Unavailable, NotAllowed) as error:
            log.warning("Details of the end of job %s are not known: %s", job.id, error.message)
            return None
        if outcome is None or (outcome.owner, outcome.exit_code) != (
            record.scheduler_id,
            record.exit_code,
        ):
            return None
        return outcome

    async def resolve_from_agent_outcome(self, job: Job, before: datetime) -> RunVerdict | None:
        """Return the final state and the changes to store for a run, from the agent's outcome file
        alone.

        None if there is no such file, or if the program had not ended by itself before the time
        ``before``.

        Raises:
            Unavailable: the job folder cannot be read.
        """
        place, task = self._place(job), job.array_task_id
        outcome = await self._files.read_outcome(place, task)
        if outcome is None or outcome.interrupted or outcome.ended_at > before:
            return None
        fence = await self._files.read_fence(place, task)
        if fence is None or not _is_written_by(outcome, fence):
            return None
        return RunVerdict(*state_from_agent(job, outcome))

    async def has_begun(self, job: Job) -> bool:
        """Return whether a run of the job's current attempt has created the fence.

        Raises ``Unavailable`` if the job folder cannot be read.
        """
        return await self._files.read_fence(self._place(job), job.array_task_id) is not None

    async def _was_cancelled(self, job: Job) -> bool:
        """Return whether the missing run is an array task that was cancelled while it was pending.

        Slurm 22.05 to 26.05 may keep no record of such a task. It then lacks only this task: it
        still has the rest of the array, or accounting has the array's last task. If Slurm has lost
        its state instead, it lacks the whole array, or it has the task again.

        Raises:
            SchedulerUnavailable: the scheduler does not answer.
        """
        waited = job.state is JobState.QUEUED  # with nodes it had a record of its own
        if job.array_task_id is None or job.scheduler_id is None or not waited:
            return False
        array_id = job.scheduler_id.partition("_")[0]
        run = make_run(job)
        array = run.model_copy(update={"scheduler_id": array_id})
        records = await self._scheduler.find_records([array, run])
        ours = [row for row in records if row.scheduler_id.partition("_")[0] == array_id]
        there = any(row.array_task_id == job.array_task_id for row in ours)
        # Once all of its waiting tasks are cancelled, the array's own record ends without indices.
        array_there = any(
            row.state in LIVE
            or row.is_last_task
            or (
                row.scheduler_id == array_id
                and (row.array_task_id, row.array_task_ids) == (None, None)
            )
            for row in ours
        )
        return array_there and not there

    def _resolve_never_started(
        self, job: Job, message: str = "The scheduler lost it before it started."
    ) -> RunVerdict:
        now = self._clock()
        if job.cancel_requested_at is not None:
            reason = job.reason or TerminationReason.CANCELLED
            changes = JobChanges(reason=reason, ended_at=now)
            return RunVerdict(JobState.CANCELLED, changes)
        log.warning("Job %s never started, so it is submitted again. %s", job.id, message)
        lost = JobChanges(
            reason=TerminationReason.LOST,
            message=message,
            ended_at=now,
        )
        return RunVerdict(JobState.LOST, lost, again=True)

    async def _resolve_dead(
        self, job: Job, since: datetime, cluster: Cluster, seen_at: datetime | None = None
    ) -> RunVerdict | None:
        now = self._clock()
        lost_at = _find_restart_time(job, cluster, seen_at)
        states = {node.name: node.state for node in cluster.nodes}
        down = [name for name in job.nodes if states.get(name) is NodeState.DOWN]
        # Until a node has answered a restarted scheduler, it counts as down there.
        if lost_at is None and job.nodes and len(down) == len(job.nodes):
            changes = JobChanges(
                reason=TerminationReason.NODE_FAILED,
                message=f"{format_nodes(down, cluster)} failed while it ran.",
                ended_at=now,
            )
            return RunVerdict(JobState.NODE_FAILED, changes)
        answered = (
            lost_at is not None and job.nodes and not down and states.keys() >= set(job.nodes)
        )
        patience = timedelta(seconds=SILENCE_AFTER_RESTART_S if answered else SILENCE_S)
        if now < since + patience:
            return None
        if await self._store.list_samples(job.id, since=now - patience, limit=1):
            return None
        message = "The scheduler no longer knows this job, and its agent does not report."
        changes = JobChanges(
            reason=TerminationReason.LOST,
            message=message if lost_at is None else _lost_message(lost_at),
            ended_at=now,
        )
        return RunVerdict(JobState.LOST, changes, lost_at=lost_at)


def _find_restart_time(job: Job, cluster: Cluster, seen_at: datetime | None) -> datetime | None:
    """Return the time at which the scheduler has restarted since its last answer with a record of
    the job's run, at the time ``seen_at`` (None: since the run began); None if it has not, or that
    is unknown.
    """
    known = job.allocated_at or job.started_at
    if known is not None and seen_at is not None:
        known = max(known, seen_at - CLOCKS_DIFFER)
    restarted = cluster.started_at
    return restarted if known and restarted and known < restarted else None


def _lost_message(lost_at: datetime) -> str:
    return (
        f"The scheduler lost its state when it restarted at {lost_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} "
        "UTC, and ended this job; the job is not the cause."
    )


def _is_written_by(outcome: ProgramOutcome, fence: Fence) -> bool:
    """Return whether the outcome was written by the run that holds the fence, not by an earlier run
    of the job.
    """
    return (outcome.owner, outcome.restart_count) == (fence.owner, fence.restart_count)
