"""Detection of jobs and sessions that hold GPUs without using them. Such jobs are reported, never
cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import Conflict, NotFound, StaleEpoch
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.models.usage_sample import Sample
from aitne.core.notifications.settings import IdleSettings
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.notifications.notification_texts import GPU_IDLE
from aitne.store import Store

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
CHECK_INTERVAL_FRACTION = 1 / 6
"""Interval between two checks of a job, as a fraction of the window over which utilization is
averaged.
"""
MOST_SAMPLES = 120
FEWEST_SAMPLES = 4
COVERED = 0.8
"""Fraction of the window that the samples with GPU values must span; with less, no mean is
computed.
"""


def mean_utilization(samples: Sequence[Sample], window_s: float) -> float | None:
    """Return the mean utilization of all GPUs in the samples, from 0 to 1.

    None if there are too few samples, or if they span too little of the last ``window_s`` seconds.
    """
    gpu_samples = [sample for sample in samples if sample.gpu]
    if len(gpu_samples) < FEWEST_SAMPLES:
        return None
    if (gpu_samples[-1].time - gpu_samples[0].time).total_seconds() < COVERED * window_s:
        return None
    utilizations = [
        float(gpu["utilization"])
        for sample in gpu_samples
        for gpu in sample.gpu
        if "utilization" in gpu
    ]
    return sum(utilizations) / len(utilizations) if utilizations else None


class GpuWatch:
    """Task that detects jobs whose GPUs are idle, while this controller is the leader. It checks
    each job several times within the window over which utilization is averaged.
    """

    def __init__(
        self,
        store: Store,
        live: LiveJobs,
        leader: Leader,
        clock: Callable[[], datetime],
        settings: IdleSettings,
    ) -> None:
        self._store = store
        self._live = live
        self._leader = leader
        self._clock = clock
        self._below = settings.gpu_utilization
        self._window = timedelta(seconds=settings.gpu_window)
        self._due: dict[UUID, datetime] = {}

    async def run(self) -> None:
        """Check GPU utilization periodically until cancelled."""
        while True:
            await self.check_jobs()
            await asyncio.sleep(
                min(LOOK_EVERY_S, self._window.total_seconds() * CHECK_INTERVAL_FRACTION)
            )

    async def check_jobs(self) -> None:
        """Check the GPU utilization of the jobs whose next check is due."""
        now = self._clock()
        concerned = [entry.job for entry in self._live if self._is_concerned(entry.job, now)]
        self._due = {job.id: self._due.get(job.id, now) for job in concerned}
        for job in concerned:
            if self._due[job.id] <= now:
                self._due[job.id] = now + self._window * CHECK_INTERVAL_FRACTION
                await self._check_job(job, now)

    def _is_concerned(self, job: Job, now: datetime) -> bool:
        return (
            job.state in (JobState.RUNNING, JobState.READY)
            and job.spec.resources.gpu.count > 0
            and job.started_at is not None
            and now - job.started_at >= self._window
        )

    async def _check_job(self, job: Job, now: datetime) -> None:
        since = now - self._window
        samples = await self._store.list_samples(job.id, since=since, limit=MOST_SAMPLES)
        mean = mean_utilization(samples, self._window.total_seconds())
        try:
            if mean is not None and mean < self._below:
                if job.gpu_idle_since is None:
                    await self._set_idle_since(job, samples[0].time)
                    await self._notify_owner(job, mean)
            elif job.gpu_idle_since is not None:
                await self._set_idle_since(job, None)
        except StaleEpoch:
            raise
        except (Conflict, NotFound) as error:
            log.info("Job %s is left unchanged: %s", job.id, error.message)
            self._due[job.id] = now

    async def _set_idle_since(self, job: Job, since: datetime | None) -> None:
        changes = JobChanges(gpu_idle_since=since)
        await self._store.transition_job(
            job.id, job.state, changes, version=job.version, epoch=self._leader.epoch
        )

    async def _notify_owner(self, job: Job, mean: float) -> None:
        """Store the event that notifies the job's owner of the idle GPUs, at most once for each
        job. Owners of sessions are warned of inactivity instead.
        """
        if job.type is JobType.SESSION or any(
            event.kind == GPU_IDLE for event in await self._store.list_job_events(job.id)
        ):
            return
        data = {"utilization": round(mean, 4), "window_s": round(self._window.total_seconds())}
        await self._store.add_job_event(job.id, GPU_IDLE, data)
