"""Deletion of ended jobs, on request or after their retention period, and maintenance of their
folders.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from aitne.core.errors import AitneError, StaleEpoch, StoreUnavailable, Unavailable
from aitne.core.models.event import Event
from aitne.core.models.job import Job
from aitne.core.ports.job_files import FolderSize, JobFiles, JobLocation
from aitne.core.retention import RetentionSettings, keep_times
from aitne.services.controller.leader import Leader
from aitne.store import Store
from aitne.store.ended_job_folders import FolderResult

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
EXPIRE_EVERY = timedelta(minutes=1)
FOLDERS_AT_ONCE = 100
EXPIRED_AT_ONCE = 200
ACCOUNTS_AT_ONCE = 4
STEPS_AT_ONCE = 5
"""Maximum number of calls, of a few seconds each, to remove one large folder; the remainder is
removed in a later check.
"""
SOONEST_RETRY, LATEST_RETRY = timedelta(seconds=30), timedelta(hours=1)


class RetentionWatch:
    """Task that requests the deletion of jobs after their retention period, carries out requested
    deletions, and cleans up and measures the folders of ended jobs.

    A job is deleted after its folder was removed. If a folder cannot be removed, the removal is
    retried at growing intervals, and the job shows the reason.
    """

    def __init__(
        self,
        store: Store,
        files: JobFiles,
        place: Callable[[Job], JobLocation],
        leader: Leader,
        clock: Callable[[], datetime],
        settings: RetentionSettings,
    ) -> None:
        self._store = store
        self._files = files
        self._place = place
        self._leader = leader
        self._clock = clock
        self._settings = settings
        self._requested = asyncio.Event()
        self._expire_at: datetime | None = None

    def on_event(self, event: Event) -> None:
        """Carry out requested deletions without delay if the event reports one."""
        if "delete_requested" in event.data:
            self._requested.set()

    async def run(self) -> None:
        """Check every few seconds, and at once after a request, until cancelled."""
        while True:
            more = await self.process_batch()
            if more:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._requested.wait()
            self._requested.clear()

    async def process_batch(self) -> bool:
        """Process one batch of jobs whose retention period is over, and one batch of folders.

        Return True if there may be more.
        """
        now = self._clock()
        expired = await self._request_expired_deletions(now)
        jobs = await self._store.list_due_folders(now, FOLDERS_AT_ONCE)
        by_account: dict[str | None, list[Job]] = defaultdict(list)
        for job in jobs:
            by_account[job.account].append(job)
        turns = asyncio.Semaphore(ACCOUNTS_AT_ONCE)

        async def process(account_jobs: Sequence[Job]) -> None:
            async with turns:
                await self._process_account_jobs(account_jobs)

        async with asyncio.TaskGroup() as group:
            for account_jobs in by_account.values():
                group.create_task(process(account_jobs))
        return expired or len(jobs) == FOLDERS_AT_ONCE

    async def _request_expired_deletions(self, now: datetime) -> bool:
        if self._expire_at is not None and now < self._expire_at:
            return False
        site = keep_times(self._settings)
        by_project = {
            name: keep_times(self._settings, own)
            for name, own in (await self._store.list_project_retentions()).items()
        }
        count = 0
        if any(keep_s is not None for times in (site, *by_project.values()) for keep_s in times):
            count = await self._store.expire_jobs(
                site, by_project, now, limit=EXPIRED_AT_ONCE, epoch=self._leader.epoch
            )
            if count:
                log.info("%d jobs are kept no longer and will be deleted.", count)
        more = count == EXPIRED_AT_ONCE
        self._expire_at = None if more else now + EXPIRE_EVERY
        return more

    async def _process_account_jobs(self, jobs: Sequence[Job]) -> None:
        """Process the folders of the jobs, which belong to one Unix account, one after the
        other.
        """
        results: list[FolderResult] = []
        problem: str | None = None
        for job in jobs:
            if problem is None:
                try:
                    result = await self._process_job(job)
                except (StaleEpoch, StoreUnavailable):
                    raise
                except AitneError as error:
                    # Probably the others cannot be reached either.
                    problem = error.message
                    log.warning("The folder of job %s: %s", job.id, problem)
                else:
                    if result is not None:
                        results.append(result)
                    continue
            results.append(self._postpone_folder(job, problem))
        if results:
            await self._store.record_folder_results(results, epoch=self._leader.epoch)

    async def _process_job(self, job: Job) -> FolderResult | None:
        """Delete the job, or clean up and measure its folder.

        Return the result to store; None if there is nothing to store.
        """
        if job.delete_requested_at is None:
            size = await self._clean_up_folder(job)
            return FolderResult(job.id, job.attempt, size=size)
        if not job.is_outside and not await self._remove_folder(job):
            return FolderResult(job.id, job.attempt, due_at=self._clock())
        if await self._store.delete_job(job.id, epoch=self._leader.epoch):
            return None
        return self._postpone_folder(job, "A job that has not ended depends on it.")

    async def _clean_up_folder(self, job: Job) -> FolderSize | None:
        try:
            return await self._files.remove_unneeded_files(self._place(job))
        except AitneError:
            if _was_accepted(job):
                raise
            return None  # its account may never have had a job, and so no folder

    async def _remove_folder(self, job: Job) -> bool:
        """Remove the job's folder; return False if a part of it is left for a later call.

        Raises ``Unavailable`` if the folder cannot be removed, or may only be unreachable.
        """
        place = self._place(job)
        for _ in range(STEPS_AT_ONCE):
            removal = await self._files.remove_job_folder(place)
            if not removal.root_visible and _was_accepted(job):
                raise Unavailable(
                    f"The folder {place.folder} is out of reach: the folder that contains it does not "
                    "exist. Ask an administrator to check its file system."
                )
            if removal.done:
                return True
        return False

    def _postpone_folder(self, job: Job, problem: str) -> FolderResult:
        now = self._clock()
        since = job.delete_requested_at or job.ended_at or now
        delay = min(max((now - since) / 2, SOONEST_RETRY), LATEST_RETRY)
        return FolderResult(job.id, job.attempt, due_at=now + delay, problem=problem)


def _was_accepted(job: Job) -> bool:
    """Return whether the job may have run, and so certainly has a folder."""
    return job.scheduler_id is not None or job.started_at is not None
