"""Reminders before a session reaches its time limit, so that users do not lose work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from aitne.core.errors import NotFound
from aitne.core.models.job import Job, JobType
from aitne.services.controller.live_jobs import LiveJobs
from aitne.store import Store

log = logging.getLogger(__name__)

ENDING = "job.ending"
"""Event kind of a reminder that is sent ``left_s`` seconds before ``expires_at``."""
BEFORE_S = (600, 120)
"""Seconds before the end of a session at which reminders are sent; each only if the session lasts
at least twice that long.
"""
LOOK_EVERY_S = 5.0

_Reminder = tuple[UUID, datetime, int]


class SessionReminderWatch:
    """Task that writes an event 10 minutes, and another 2 minutes, before a session reaches its
    time limit. A session that is extended gets new reminders.
    """

    def __init__(self, store: Store, live: LiveJobs, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._live = live
        self._clock = clock
        self._sent: set[_Reminder] = set()

    async def run(self) -> None:
        """Check every few seconds, until cancelled."""
        while True:
            await self.send_reminders()
            await asyncio.sleep(LOOK_EVERY_S)

    async def send_reminders(self) -> None:
        """Send the reminders that are due."""
        due = [
            (entry.job, step) for entry in self._live if (step := self._find_due_step(entry.job))
        ]
        self._sent = {
            reminder for reminder in self._sent if self._live.get(reminder[0]) is not None
        }
        for job, step in due:
            if job.expires_at is not None:
                self._sent.add((job.id, job.expires_at, step))
                await self._send_reminder(job, job.expires_at, step)

    def _find_due_step(self, job: Job) -> int | None:
        """Return the most recent reminder time in seconds before the end that has passed; None if
        no reminder is due.
        """
        ends, began = job.expires_at, job.allocated_at or job.started_at
        if (
            job.type is not JobType.SESSION
            or not job.state.is_active
            or ends is None
            or began is None
        ):
            return None
        left_s = (ends - self._clock()).total_seconds()
        lasts_s = (ends - began).total_seconds()
        passed = [step for step in BEFORE_S if 0 < left_s <= step and lasts_s >= 2 * step]
        step = min(passed, default=None)
        return None if step is None or (job.id, ends, step) in self._sent else step

    async def _send_reminder(self, job: Job, ends: datetime, step: int) -> None:
        data = {"expires_at": ends.isoformat(), "left_s": step, "name": job.name}
        try:
            # An earlier controller may have sent the reminder.
            for event in await self._store.list_job_events(job.id):
                if event.kind == ENDING and event.data == data:
                    return
            await self._store.add_job_event(job.id, ENDING, data)
        except NotFound:
            log.info("Session %s was deleted before its reminder was sent.", job.id)
