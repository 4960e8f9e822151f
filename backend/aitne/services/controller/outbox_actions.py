"""Changes of jobs that the scheduler has, such as cancellation. Each change is carried out at least
once and does not wait for pending submissions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import (
    AitneError,
    Conflict,
    NotFound,
    NotSupported,
    SchedulerRejected,
    StaleEpoch,
    Unavailable,
)
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.outside_jobs import OutsideAction, OutsideJobs
from aitne.core.ports.scheduler import Scheduler
from aitne.core.units import parse_array
from aitne.services.controller.leader import Leader
from aitne.services.controller.outside_job_watch import make_outside_run
from aitne.services.controller.run_identification import make_run
from aitne.store import Store
from aitne.store.action_outbox import OutboxItem, OutboxKind

log = logging.getLogger(__name__)

KINDS = frozenset(OutboxKind) - {OutboxKind.SUBMIT}
MOST_AT_ONCE = 4
LEASE_S = 60.0
RETRY_S = 2.0
NO_ID_YET_S = 0.5
REFUSED_S = 10.0
PAUSE_S = 0.02
"""Minimum seconds between two reads of the outbox, because most changes add no item for this
worker.
"""
IDLE_S = 0.5


class OutboxActions:
    """Worker that carries out changes of jobs that the scheduler has: the outbox items of all kinds
    except SUBMIT.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        leader: Leader,
        clock: Callable[[], datetime],
        outside: OutsideJobs | None = None,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._outside = outside
        self._leader = leader
        self._clock = clock
        self._changing: set[UUID] = set()
        """IDs of the jobs with an item in progress that is not CANCEL; a second such item of the
        job waits.
        """
        self.cancelled = asyncio.Event()
        """Event that is set when a job was cancelled in the scheduler, and cleared by the next
        poll.
        """

    async def process_due_items(self) -> None:
        """Carry out all items that are due."""
        await self.run(until_idle=True)

    async def run(self, *, until_idle: bool = False) -> None:
        """Carry out items as they become due, until cancelled; with ``until_idle``, until no item
        is due.
        """
        in_hand: set[int] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                room = MOST_AT_ONCE - len(in_hand)
                items = room and await self._store.lease_outbox_items(
                    kinds=KINDS, epoch=self._leader.epoch, limit=room, lease_s=LEASE_S
                )
                fresh = [item for item in items or () if item.id not in in_hand]
                for item in fresh:
                    in_hand.add(item.id)
                    group.create_task(self._handle_with_retry(item, in_hand))
                if fresh:
                    continue
                if until_idle and not in_hand:
                    return
                if not until_idle:
                    await asyncio.sleep(PAUSE_S)
                await self._store.wait_for_change(0.02 if until_idle else IDLE_S)

    async def _handle_with_retry(self, item: OutboxItem, in_hand: set[int]) -> None:
        try:
            delay_s = await self._handle_item(item)
        except StaleEpoch:
            raise
        except Unavailable as error:
            log.warning("%s of job %s is delayed: %s", item.kind, item.job_id, error.message)
            delay_s = RETRY_S
        except NotFound:
            delay_s = None
        except AitneError as error:
            log.error("%s of job %s is refused: %s", item.kind, item.job_id, error.message)
            delay_s = REFUSED_S
        if isinstance(delay_s, Job):
            await self._store.hold_outbox_items({item.id: delay_s}, epoch=self._leader.epoch)
        elif delay_s is None:
            await self._store.finish_outbox_items(item.id, epoch=self._leader.epoch)
        else:
            await self._store.return_outbox_items(
                item.id, epoch=self._leader.epoch, delay_s=delay_s
            )
        in_hand.discard(item.id)

    async def _handle_item(self, item: OutboxItem) -> float | Job | None:
        """Carry out one item.

        Return None if it is done, the number of seconds until the next attempt, or the job whose
        scheduler ID must be stored before the item can be carried out.
        """
        job = await self._store.get_job(item.job_id)
        if item.attempt != job.attempt or job.state.is_terminal:
            return None
        if item.kind is OutboxKind.CANCEL:
            if job.scheduler_id is None:
                # The submission has no outcome yet; the cancellation waits for the scheduler ID.
                return NO_ID_YET_S
            await self._act_on_outside_job(job, OutsideAction.CANCEL)
            return None
        if job.id in self._changing:
            return RETRY_S
        self._changing.add(job.id)
        try:
            # An earlier item may have changed the job since.
            job = await self._store.get_job(item.job_id)
            if item.kind is OutboxKind.EXTEND:
                return await self._apply_extension(job, int(item.data["time_limit_s"]))
            if job.scheduler_id is None:
                return job
            if item.kind is OutboxKind.HOLD:
                await self._apply_hold(job)
            else:
                await self._apply_throttle(job)
            return None
        finally:
            self._changing.discard(job.id)

    async def _act_on_outside_job(self, job: Job, action: OutsideAction) -> None:
        """Carry out the action through the adapter that manages the job.

        Raises ``SchedulerRejected`` or ``NotSupported``.
        """
        if job.is_outside:
            if self._outside is not None:
                await self._outside.perform_action(make_outside_run(job), action)
            return
        match action:
            case OutsideAction.CANCEL:
                await self._scheduler.cancel(make_run(job))
                self.cancelled.set()
            case OutsideAction.HOLD:
                await self._scheduler.hold(make_run(job))
            case OutsideAction.RELEASE:
                await self._scheduler.release(make_run(job))

    async def _apply_hold(self, job: Job) -> None:
        """Hold or release the job in the scheduler, according to the job's stored specification."""
        hold = job.spec.hold
        try:
            await self._act_on_outside_job(
                job, OutsideAction.HOLD if hold else OutsideAction.RELEASE
            )
        except (SchedulerRejected, NotSupported) as error:
            await self._store.withdraw_hold(job.id, not hold, epoch=self._leader.epoch)
            verb = "held" if hold else "released"
            await self._store_changes(job, JobChanges(message=f"Not {verb}: {error.message}"))

    async def _apply_throttle(self, job: Job) -> None:
        """Set the maximum number of concurrent tasks of the array in the scheduler, as its stored
        specification says.
        """
        max_parallel = parse_array(job.spec.array or "0").throttle
        try:
            await self._scheduler.throttle(make_run(job), max_parallel)
        except (SchedulerRejected, NotSupported) as error:
            await self._store_changes(
                job, JobChanges(message=f"Task limit not set: {error.message}")
            )

    async def _apply_extension(self, job: Job, time_limit_s: int) -> float | None:
        if (
            job.scheduler_id is None
            or not job.state.is_active
            or _is_already_extended(job, time_limit_s)
        ):
            return None
        try:
            await self._scheduler.extend(make_run(job), time_limit_s)
        except SchedulerRejected as error:
            await self._store_changes(job, JobChanges(message=f"Not extended: {error.message}"))
            return None
        start = job.allocated_at or job.started_at
        if start is not None:
            expires_at = start + timedelta(seconds=time_limit_s)
            await self._store_changes(job, JobChanges(expires_at=expires_at))
        return None

    async def _store_changes(self, job: Job, changes: JobChanges) -> None:
        try:
            await self._store.transition_job(
                job.id, job.state, changes, attempt=job.attempt, epoch=self._leader.epoch
            )
        except StaleEpoch:
            raise
        except Conflict as error:
            log.info("The state of job %s changed meanwhile: %s", job.id, error.message)


def _is_already_extended(job: Job, time_limit_s: int) -> bool:
    """Return whether the job's present time limit is ``time_limit_s`` seconds or more.

    An extension is not sent to the scheduler in that case, because it could shorten the limit.
    """
    start = job.allocated_at or job.started_at
    if start is None or job.expires_at is None:
        return False
    return job.expires_at - start >= timedelta(seconds=time_limit_s)
