"""End of idle sessions. Each owner is warned twice before, and only reports of the session's own
agent count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.errors import Conflict, NotFound, StaleEpoch
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.models.notification import SessionActivity
from aitne.core.units import describe_duration
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.store import Store

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
LONGEST_LEADS_S = (900.0, 120.0)
LEAD_PARTS = (0.25, 0.1)
"""Time before the end of a session at which each warning is sent, as a fraction of the inactivity
duration; ``LONGEST_LEADS_S`` limits it.
"""
SILENT_S = 90.0
"""Seconds after which an agent without reports counts as silent; a fifth of the session's
inactivity duration is added.
"""


def compute_warning_leads(duration_s: int) -> tuple[timedelta, timedelta]:
    """Return how long before the end of an idle session the first and the second warning are sent.

    Args:
        duration_s: time without activity after which the session ends, in seconds.
    """
    first, second = (
        timedelta(seconds=min(longest, part * duration_s))
        for longest, part in zip(LONGEST_LEADS_S, LEAD_PARTS, strict=True)
    )
    return first, second


class IdleWatch:
    """Task that warns the owners of idle sessions and later stops these sessions, while this
    controller is the leader. One query reads the activity of all sessions.
    """

    def __init__(
        self, store: Store, live: LiveJobs, leader: Leader, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._live = live
        self._leader = leader
        self._clock = clock

    async def run(self) -> None:
        """Check sessions periodically until cancelled."""
        while True:
            pause_s = await self.check_sessions()
            await asyncio.sleep(pause_s)

    async def check_sessions(self) -> float:
        """Check all sessions once: warn their owners before an end for inactivity, and stop
        sessions that have been idle for their inactivity duration.

        Returns the number of seconds until the next check.
        """
        sessions = {entry.job.id: entry.job for entry in self._live if _is_concerned(entry.job)}
        if not sessions:
            return LOOK_EVERY_S
        for activity in await self._store.list_activities():
            job = sessions.get(activity.job_id)
            if job is not None:
                await self._check_session(job, activity)
        shortest = min(job.spec.inactivity_duration_s or 0 for job in sessions.values())
        return max(0.5, min(LOOK_EVERY_S, shortest / 20))

    async def _check_session(self, job: Job, activity: SessionActivity) -> None:
        try:
            await self._warn_or_end(job, activity)
        except StaleEpoch:
            raise
        except (Conflict, NotFound) as error:
            # Its state changed meanwhile; the next check reads it.
            log.info("Session %s is left unchanged: %s", job.id, error.message)

    async def _warn_or_end(self, job: Job, activity: SessionActivity) -> None:
        now, lasts_s = self._clock(), job.spec.inactivity_duration_s or 0
        lasts = timedelta(seconds=lasts_s)
        first, second = compute_warning_leads(lasts_s)
        idle_until = activity.active_at + lasts
        silent = now - activity.seen_at > timedelta(seconds=SILENT_S) + lasts / 5
        if not activity.warned or silent:
            if not silent and now >= idle_until - first:
                # After a pause of the controller no session is ended without a timely warning.
                ends = max(idle_until, now + first)
                await self._set_idle_end(job, ends)
                await self._record_warning(job, 1, ends)
            elif job.idle_ends_at is not None:
                await self._set_idle_end(job, None)
            return
        ends = max(job.idle_ends_at or now + second, idle_until)
        if ends != job.idle_ends_at:
            await self._set_idle_end(job, ends)
        if activity.warned == 1 and now >= ends - second:
            await self._record_warning(job, 2, ends)
        elif activity.warned > 1 and now >= ends:
            await self._end_session(job, activity, lasts_s)

    async def _set_idle_end(self, job: Job, ends: datetime | None) -> None:
        await self._store.transition_job(
            job.id,
            job.state,
            JobChanges(idle_ends_at=ends),
            version=job.version,
            epoch=self._leader.epoch,
        )

    async def _record_warning(self, job: Job, number: int, ends: datetime) -> None:
        now = self._clock()
        data = {
            "ends_at": ends.isoformat(),
            "left_s": max(0, round((ends - now).total_seconds())),
            "warning": number,
            "name": job.name,
        }
        await self._store.record_idle_warning(
            job.id, warned=number, at=now, data=data, epoch=self._leader.epoch
        )

    async def _end_session(self, job: Job, activity: SessionActivity, lasts_s: int) -> None:
        # Other sessions were checked since this was read; activity at the last moment counts.
        if any(
            report.job_id == job.id and report.active_at > activity.active_at
            for report in await self._store.list_activities()
        ):
            return
        message = f"Ended after {describe_duration(lasts_s)} without activity."
        await self._store.request_cancel(
            job.id, self._clock(), message, reason=TerminationReason.IDLE, version=job.version
        )


def _is_concerned(job: Job) -> bool:
    return (
        job.type is JobType.SESSION
        and job.spec.inactivity_duration_s is not None
        and job.state.is_active
        and job.cancel_requested_at is None
    )
