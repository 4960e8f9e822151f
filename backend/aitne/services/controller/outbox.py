"""What the platform owes the outside world: submissions, cancellations, extensions.

Each item is done at least once, and a submission at most once in effect: the job's UUID and attempt
travel with it, an ambiguous answer is resolved by searching for them before anything is tried again,
and the fence in the job's folder catches what slips through.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import assert_never

from aitne.core.errors import (
    AitneError,
    Conflict,
    InvalidInput,
    NotFound,
    SchedulerRejected,
    SchedulerUnavailable,
    StaleEpoch,
    SubmitUncertain,
)
from aitne.core.metric_names import RECONCILE, SUBMISSIONS
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.scheduler import Scheduler
from aitne.core.ports.store import OutboxItem, OutboxKind, Store
from aitne.core.states import JobState, TerminationReason
from aitne.services.controller.counts import Counts
from aitne.services.controller.leader import Leader
from aitne.services.controller.runs import is_of, run_of
from aitne.services.render import Renderer

log = logging.getLogger(__name__)

BATCH = 50
LEASE_S = 30.0
MOST_AT_ONCE = 4
RETRY_S = 2.0
DEPENDENCY_RETRY_S = 0.5
_OPEN = frozenset({JobState.SUBMITTING, JobState.UNCERTAIN})
"""The submission's outcome is not written down yet."""


class OutboxWorker:
    """Empties the outbox into the scheduler."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        renderer: Renderer,
        leader: Leader,
        clock: Callable[[], datetime],
        counts: Counts,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._renderer = renderer
        self._leader = leader
        self._clock = clock
        self._counts = counts
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def drain(self) -> int:
        """Handle everything that is due; how many items were taken."""
        done = 0
        while True:
            items = await self._store.lease_outbox(
                epoch=self._leader.epoch, limit=BATCH, lease_s=LEASE_S
            )
            if not items:
                return done
            done += len(items)
            async with asyncio.TaskGroup() as group:
                for item in items:
                    group.create_task(self._guarded(item))

    async def _guarded(self, item: OutboxItem) -> None:
        async with self._slots:
            try:
                delay_s = await self._handle(item)
            except StaleEpoch:
                raise
            except SchedulerUnavailable as error:
                log.warning("%s of job %s has to wait: %s", item.kind, item.job_id, error.message)
                delay_s = RETRY_S
            except NotFound:
                delay_s = None
            except AitneError as error:
                log.exception("%s of job %s went wrong: %s", item.kind, item.job_id, error.message)
                delay_s = RETRY_S
            if delay_s is None:
                await self._store.finish_outbox(item.id, epoch=self._leader.epoch)
            else:
                await self._store.return_outbox(item.id, epoch=self._leader.epoch, delay_s=delay_s)

    async def _handle(self, item: OutboxItem) -> float | None:
        """Do it. None: done; a number: try again after so many seconds."""
        job = await self._store.get_job(item.job_id)
        if item.attempt != job.attempt or job.state.terminal:
            return None
        match item.kind:
            case OutboxKind.SUBMIT:
                return await self._submit(job)
            case OutboxKind.CANCEL:
                return await self._cancel(job)
            case OutboxKind.EXTEND:
                return await self._extend(job, int(item.data["time_limit_s"]))
        assert_never(item.kind)

    async def _submit(self, job: Job) -> float | None:
        if job.state is not JobState.PENDING_SUBMIT:
            # Also when the agent was heard meanwhile: without its id a job can never be cancelled.
            return await self._resolve(job) if job.scheduler_id is None else None
        if job.cancel_requested_at is not None:
            await self._end(job, JobState.CANCELLED, TerminationReason.CANCELLED, job.message)
            return None
        after = await self._dependencies(job)
        if isinstance(after, float):
            return after
        if after is None:
            return None
        try:
            token = secrets.token_urlsafe(32)
            request = self._renderer.submit_request(job, after, token)
        except InvalidInput as error:
            await self._end(job, JobState.FAILED, TerminationReason.REJECTED, error.message)
            return None
        # SUBMITTING is committed before the scheduler is asked, so a crash from here on is seen.
        job = await self._move(
            job, JobState.SUBMITTING, JobChanges(submitted_at=self._clock(), message=None)
        )
        if job.state is not JobState.SUBMITTING:
            return None  # it was cancelled since it was read
        await self._store.set_job_token(
            # One task that is tried again has a token of its own: its array's is gone with the array.
            job.id,
            hashlib.sha256(token.encode()).hexdigest(),
            epoch=self._leader.epoch,
        )
        try:
            scheduler_id = await self._scheduler.submit(request)
        except SubmitUncertain as error:
            self._counts.add(SUBMISSIONS, "uncertain")
            log.warning("Job %s may or may not have been submitted: %s", job.id, error.message)
            await self._move(job, JobState.UNCERTAIN, JobChanges(message=error.message))
            return RETRY_S
        except SchedulerRejected as error:
            self._counts.add(SUBMISSIONS, "rejected")
            await self._end(job, JobState.FAILED, TerminationReason.REJECTED, error.message)
            return None
        except SchedulerUnavailable as error:
            self._counts.add(SUBMISSIONS, "unavailable")
            await self._move(
                job,
                JobState.PENDING_SUBMIT,
                JobChanges(message=f"Waits for the scheduler: {error.message}", submitted_at=None),
            )
            return RETRY_S
        self._counts.add(SUBMISSIONS, "accepted")
        await self._queued(job, scheduler_id)
        return None

    async def _resolve(self, job: Job) -> float | None:
        """A submission whose outcome nobody knows: adopt what the scheduler has, or try again."""
        found = [
            record for record in await self._scheduler.find([run_of(job)]) if is_of(record, job)
        ]
        if found:
            scheduler_id = found[0].scheduler_id
            if job.is_array:
                scheduler_id = scheduler_id.partition("_")[0]
            self._counts.add(RECONCILE, "adopted")
            log.info("Job %s was found in the scheduler as %s.", job.id, scheduler_id)
            await self._queued(job, scheduler_id)
            return None
        # Only when the job could no longer turn up does an empty search mean that it never will.
        settled = timedelta(seconds=self._scheduler.settle_s)
        if job.submitted_at and self._clock() < job.submitted_at + settled:
            return RETRY_S
        self._counts.add(RECONCILE, "never_arrived")
        await self._move(job, JobState.PENDING_SUBMIT, JobChanges(submitted_at=None))
        return 0.0

    async def _dependencies(self, job: Job) -> list[str] | float | None:
        """Scheduler ids to wait for; a delay while one has none yet; None when one has failed."""
        wait_for: list[str] = []
        for dependency in job.spec.after:
            try:
                other = await self._store.get_job(dependency)
            except NotFound:
                other = None
            if other is None or (other.state.terminal and other.state is not JobState.COMPLETED):
                state = "is gone" if other is None else f"ended {other.state}"
                await self._end(
                    job,
                    JobState.CANCELLED,
                    TerminationReason.DEPENDENCY_FAILED,
                    f"It was to run after job {dependency}, which {state}.",
                )
                return None
            if other.state is JobState.COMPLETED:
                continue
            # The scheduler would wait for this attempt only, and a retry is another one.
            if other.scheduler_id is None or other.spec.retry.max:
                return DEPENDENCY_RETRY_S
            wait_for.append(other.scheduler_id)
        return wait_for

    async def _cancel(self, job: Job) -> float | None:
        if job.scheduler_id is None:
            # Its submission is still being settled; that comes first, then this finds an id.
            return DEPENDENCY_RETRY_S
        await self._scheduler.cancel(run_of(job))
        return None

    async def _extend(self, job: Job, time_limit_s: int) -> float | None:
        if job.scheduler_id is None or not job.state.active:
            return None
        try:
            await self._scheduler.extend(run_of(job), time_limit_s)
        except SchedulerRejected as error:
            await self._move(job, job.state, JobChanges(message=f"Not extended: {error.message}"))
            return None
        start = job.allocated_at or job.started_at
        if start is not None:
            await self._move(
                job, job.state, JobChanges(expires_at=start + timedelta(seconds=time_limit_s))
            )
        return None

    async def _queued(self, job: Job, scheduler_id: str) -> None:
        """Note the scheduler's id; QUEUED unless the agent was heard before the scheduler answered."""
        rows = [job]
        if job.is_array:
            rows = [*await self._store.array_tasks(job.id), job]
        for row in rows:
            own = row.array_task_id if job.is_array else None
            await self._note_id(row, scheduler_id if own is None else f"{scheduler_id}_{own}")

    async def _note_id(self, job: Job, scheduler_id: str) -> None:
        attempt = job.attempt
        while True:
            job = await self._store.get_job(job.id)
            if job.attempt != attempt:
                return  # that run is over already, and the next one gets an id of its own
            waits = job.state in _OPEN
            try:
                await self._store.transition(
                    job.id,
                    JobState.QUEUED if waits else job.state,
                    JobChanges(scheduler_id=scheduler_id),
                    version=job.version,
                    epoch=self._leader.epoch,
                )
            except StaleEpoch:
                raise
            except Conflict:
                continue
            return

    async def _end(
        self, job: Job, state: JobState, reason: TerminationReason, message: str | None
    ) -> None:
        await self._move(
            job, state, JobChanges(reason=reason, message=message, ended_at=self._clock())
        )

    async def _move(self, job: Job, to: JobState, changes: JobChanges) -> Job:
        """One transition; of an array job, of all its tasks that have not gone further by themselves."""
        if job.is_array:
            for task in await self._store.array_tasks(job.id):
                if task.state is job.state and task.attempt == job.attempt:
                    await self._transition(task, to, changes)
            job = await self._store.get_job(job.id)
        return await self._transition(job, to, changes)

    async def _transition(self, job: Job, to: JobState, changes: JobChanges) -> Job:
        try:
            return await self._store.transition(
                job.id, to, changes, attempt=job.attempt, epoch=self._leader.epoch
            )
        except StaleEpoch:
            raise
        except Conflict as error:
            # The poller or the agent was quicker: what they saw is newer than what we know.
            log.info("Job %s moved on by itself: %s", job.id, error.message)
            return await self._store.get_job(job.id)
