"""One batched query of the scheduler for all jobs, and what follows from its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.agent_protocol import EXIT_DUPLICATE, EXIT_NEVER_ANSWERED
from aitne.core.errors import Conflict, NotFound, SchedulerUnavailable, StaleEpoch
from aitne.core.metric_names import RECONCILE
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.ports.scheduler import Scheduler, SchedulerJob
from aitne.core.ports.store import Store
from aitne.core.states import LIVE, JobState, TerminationReason, retries
from aitne.services.controller.counts import Counts
from aitne.services.controller.leader import Leader
from aitne.services.controller.runs import Records, run_of

log = logging.getLogger(__name__)

SETTLING_S = 10.0
"""A job this young may be missing from an answer for no reason at all."""
ABSENCES = 3
"""Missing from so many answers in a row, a job is looked for by itself."""
SILENT_AGENT_S = 15.0
"""A batch job whose agent cannot reach the platform is believed to run after this."""
START_TIMEOUT = timedelta(seconds=120)
"""A session whose agent has not reported this long after it got its nodes will never come up."""
EXPECTED_START_NOISE = timedelta(seconds=30)
PRIORITY_NOISE = 0.1
"""A priority that moved by less than this part of itself is not written by itself."""

AGENT_EXITS = {
    EXIT_DUPLICATE: (
        TerminationReason.DUPLICATE,
        "Another run of this attempt had already begun, so this one ended at once.",
    ),
    EXIT_NEVER_ANSWERED: (
        TerminationReason.START_FAILED,
        "The app did not answer in time; the log says more.",
    ),
}
"""Exit codes with which a session's agent itself speaks, and what they mean."""

_SUBMITTED = LIVE - {JobState.PENDING_SUBMIT, JobState.SUBMITTING, JobState.UNCERTAIN}


class Poller:
    """Brings job rows up to what the scheduler says. Absence from an answer proves nothing."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        leader: Leader,
        clock: Callable[[], datetime],
        counts: Counts,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._leader = leader
        self._clock = clock
        self._counts = counts
        self._absences: dict[UUID, int] = {}

    async def poll(self) -> bool:
        """Ask once, update what changed. False: the scheduler did not answer; nothing is concluded."""
        # Read before the question is asked: an answer may only be applied to rows that it is newer than.
        live = [job for job in await self._store.live_jobs() if job.state in _SUBMITTED]
        try:
            answer = await self._scheduler.poll()
            cluster = await self._scheduler.cluster()
        except SchedulerUnavailable as error:
            log.warning("The scheduler does not answer: %s", error.message)
            return False
        await self._store.save_cluster(cluster, epoch=self._leader.epoch)
        said = Records(answer)
        for job in live:
            if job.is_array:
                continue
            record = said.of(job)
            try:
                if record is not None:
                    self._absences.pop(job.id, None)
                    await self._apply(job, record)
                else:
                    await self._absent(job)
            except SchedulerUnavailable as error:
                log.warning("Job %s is left for the next poll: %s", job.id, error.message)
        self._forget({job.id for job in live})
        return True

    def _forget(self, live: set[UUID]) -> None:
        for job_id in self._absences.keys() - live:
            del self._absences[job_id]

    async def _absent(self, job: Job) -> None:
        count = self._absences[job.id] = self._absences.get(job.id, 0) + 1
        since = job.submitted_at or job.created_at
        young = self._clock() < since + timedelta(seconds=SETTLING_S)
        if young or count < ABSENCES:
            return
        record = Records(await self._scheduler.find([run_of(job)])).of(job)
        if record is not None:
            await self._apply(job, record)
            return
        self._counts.add(RECONCILE, "lost")
        await self._end(
            job,
            JobState.LOST,
            JobChanges(
                reason=TerminationReason.LOST,
                message="The scheduler no longer knows this job.",
                ended_at=self._clock(),
            ),
        )

    async def _apply(self, job: Job, record: SchedulerJob) -> None:
        if record.state.terminal:
            await self._end(job, record.state, _outcome(job, record, self._clock()))
            return
        if await self._never_started(job):
            return
        state, changes = _progress(job, record, self._clock())
        if state is not job.state or changes.model_fields_set:
            await self._transition(job, state, changes)

    async def _never_started(self, job: Job) -> bool:
        since = job.allocated_at
        waits = job.type is JobType.SESSION and job.state is JobState.STARTING
        if not waits or since is None or self._clock() < since + START_TIMEOUT:
            return False
        if job.scheduler_id is not None:
            await self._scheduler.cancel(run_of(job))
        changes = JobChanges(
            reason=TerminationReason.START_FAILED,
            message="Nothing was heard from inside the allocation; its log says more.",
            ended_at=self._clock(),
        )
        await self._end(job, JobState.FAILED, changes)
        return True

    async def _end(self, job: Job, state: JobState, changes: JobChanges) -> None:
        policy = job.spec.retry
        # What the scheduler has started again by itself is spent too: nobody retries twice.
        runs = job.attempt + (changes.restart_count or job.restart_count)
        if changes.reason is None or not retries(changes.reason, policy.on, runs, policy.max):
            await self._transition(job, state, changes)
            return
        self._counts.add(RECONCILE, "retried")
        log.info("Job %s ended %s and is tried again.", job.id, changes.reason)
        try:
            await self._store.retry(
                job.id, state, changes, attempt=job.attempt, epoch=self._leader.epoch
            )
        except StaleEpoch:
            raise
        except (Conflict, NotFound) as error:
            log.info("Job %s was not tried again: %s", job.id, error.message)

    async def _transition(self, job: Job, state: JobState, changes: JobChanges) -> None:
        try:
            # What anybody has said since the row was read is newer than the answer.
            await self._store.transition(
                job.id, state, changes, version=job.version, epoch=self._leader.epoch
            )
        except StaleEpoch:
            raise
        except (Conflict, NotFound) as error:
            # Somebody moved it since the row was read; the next poll sees both anew.
            log.info("Job %s was not moved to %s: %s", job.id, state, error.message)


def _outcome(job: Job, record: SchedulerJob, now: datetime) -> JobChanges:
    reason = record.reason
    message = None
    if job.cancel_requested_at is not None and record.state is JobState.CANCELLED:
        message = job.message
    elif reason is TerminationReason.TIMED_OUT:
        message = "It reached its time limit."
    elif reason is TerminationReason.OUT_OF_MEMORY:
        message = "It used more memory than it had asked for; ask for more next time."
    elif reason is TerminationReason.FAILED:
        message = (
            f"The program was ended by signal {record.signal}."
            if record.signal
            else f"The program ended with exit code {record.exit_code}."
        )
    elif reason is not None and record.pending_reason:
        message = record.pending_reason
    # A batch job's program may well end with such a code itself (xargs does): there it says nothing.
    if job.type is JobType.SESSION and reason is TerminationReason.FAILED:
        reason, message = AGENT_EXITS.get(record.exit_code or 0, (reason, message))
    return JobChanges(
        reason=reason,
        message=message,
        exit_code=record.exit_code,
        signal=record.signal,
        nodes=record.nodes or job.nodes,
        partition=record.partition or job.partition,
        scheduler_record=dict(record.raw),
        restart_count=record.restart_count,
        allocated_at=job.allocated_at or record.started_at,
        ended_at=record.ended_at or now,
    )


def _progress(job: Job, record: SchedulerJob, now: datetime) -> tuple[JobState, JobChanges]:
    """The state a live job is in, and only those fields that differ from its row."""
    values: dict[str, object] = {}
    state = record.state
    if state is JobState.RUNNING and job.state in (
        JobState.STARTING,
        JobState.RUNNING,
        JobState.READY,
    ):
        # The scheduler speaks of the allocation; what runs in it is for the agent to say.
        state = job.state
        silent = job.allocated_at and now > job.allocated_at + timedelta(seconds=SILENT_AGENT_S)
        if job.state is JobState.STARTING and job.type is JobType.JOB and silent:
            state = JobState.RUNNING
            values["started_at"] = job.allocated_at
    elif state is JobState.RUNNING and job.state is not JobState.SUSPENDED:
        state = JobState.STARTING
    elif state is JobState.STARTING and job.state in (JobState.RUNNING, JobState.READY):
        state = job.state

    if record.restart_count != job.restart_count:
        values["restart_count"] = record.restart_count
    if record.nodes and record.nodes != job.nodes:
        values["nodes"] = record.nodes
    if record.partition and record.partition != job.partition:
        values["partition"] = record.partition
    if state.active:
        if record.started_at and record.started_at != job.allocated_at:
            values["allocated_at"] = record.started_at
            if record.time_limit_s:
                values["expires_at"] = record.started_at + timedelta(seconds=record.time_limit_s)
        if job.message is not None and job.state is JobState.QUEUED:
            values["message"] = None
    if state is JobState.QUEUED:
        if job.state is not JobState.QUEUED:
            # A requeue: what the run before had reached is over.
            for field in ("allocated_at", "started_at", "ready_at", "expires_at", "address", "url"):
                values[field] = None
        if record.pending_reason != job.message:
            values["message"] = record.pending_reason
        expected, known = record.expected_start_at, job.expected_start_at
        moved = expected and known and abs(expected - known) > EXPECTED_START_NOISE
        if (expected is None) is not (known is None) or moved:
            values["expected_start_at"] = expected
    # With every poll priorities move a little: that alone is not worth a row for each job that waits.
    if (values or state is not job.state or _moved(job.priority, record.priority)) and (
        record.priority != job.priority
    ):
        values["priority"] = record.priority
    if values or state is not job.state:
        values["scheduler_record"] = dict(record.raw)
    return state, JobChanges.model_validate(values)


def _moved(before: int | None, now: int | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= PRIORITY_NOISE * max(abs(before), 1)
