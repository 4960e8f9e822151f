"""Reminders before the end of projects, their expiry, and the storage of their usage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from aitne.core.errors import AitneError, IllegalTransition, StaleEpoch, StoreUnavailable
from aitne.core.models.project import Project, Step
from aitne.services.controller.leader import Leader
from aitne.services.projects.monthly_usage import UsageMonths, is_month_settled
from aitne.services.projects.project_balance import (
    counted_months,
    get_month_bounds,
    month_of,
    months_between,
)
from aitne.store import Store

log = logging.getLogger(__name__)

REMIND_DAYS = (30, 7, 1)
LOOK_EVERY_S = 60.0
USAGE_EVERY = timedelta(minutes=5)
PAUSE_TIMES = 20.0
"""Pause between queries of accounting, as a multiple of the duration of the last query."""
MONTHS_BACK = 12
ABSENT_AT_ONCE = 6
"""Maximum number of missing months read in one round, before the next round starts."""
ACTOR = "platform"


class ProjectWatch:
    """Task that checks all projects every minute while this controller leads: it sends reminders,
    ends expired projects and stores the usage.
    """

    def __init__(
        self, store: Store, usage: UsageMonths, leader: Leader, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._usage = usage
        self._leader = leader
        self._clock = clock
        self._usage_due: datetime | None = None
        self._silent = False

    async def run(self) -> None:
        """Check all projects periodically until cancelled."""
        while True:
            await self.check_projects()
            await asyncio.sleep(LOOK_EVERY_S)

    async def check_projects(self) -> None:
        """Send the reminders that are due, end expired projects and store the
        monthly usage.
        """
        now = self._clock()
        for project in await self._store.list_ending_projects(now + timedelta(days=REMIND_DAYS[0])):
            if project.expires_at is not None:
                await self._remind_or_expire(project, project.expires_at, now)
        if self._usage_due is None or now >= self._usage_due:
            behind = await self._keep_usage(now)
            rest = (self._clock() - now) * PAUSE_TIMES
            self._usage_due = now + (rest if behind else max(USAGE_EVERY, rest))

    async def _remind_or_expire(self, project: Project, ends: datetime, now: datetime) -> None:
        epoch = self._leader.epoch
        if ends <= now:
            try:
                await self._store.apply_project_step(
                    project.name, Step.EXPIRE, actor=ACTOR, epoch=epoch, due=now
                )
            except IllegalTransition:
                log.info("Project %s was closed before its end date.", project.name)
            return
        days = next(step for step in reversed(REMIND_DAYS) if ends - now <= timedelta(days=step))
        await self._store.record_project_reminder(project.name, ends, days, epoch=epoch)

    async def _keep_usage(self, now: datetime) -> bool:
        """Read the usage of missing months from accounting and store it.

        Return True if there are months left that were never read and accounting answers.
        """
        projects = await self._store.list_projects(visible_to=None)
        try:
            months, absent = await self._list_months_to_read(projects, now)
            for month in [*months, *absent[:ABSENT_AT_ONCE]]:
                await self._usage.month(month)
        except (StoreUnavailable, StaleEpoch):
            raise
        except AitneError as error:
            if not self._silent:
                log.warning("The usage is not known: %s", error.message)
            self._silent = True
            return False
        self._silent = False
        return len(absent) > ABSENT_AT_ONCE

    async def _list_months_to_read(
        self, projects: Sequence[Project], now: datetime
    ) -> tuple[list[str], list[str]]:
        """Return the months to read again, and those that were never read.

        The first list contains the current month and months whose usage may still change; the
        second is sorted newest first.
        """
        present = month_of(now)
        first = month_of(min((project.created_at for project in projects), default=now))
        year = month_of(get_month_bounds(present)[0] - timedelta(days=31 * (MONTHS_BACK - 1)))
        needed = set(months_between(max(first, year), present))
        for project in projects:
            needed.update(counted_months(project.budget, now))
        stored = await self._store.list_usage_months(sorted(needed))
        stale = [m for m in sorted(stored) if m != present and not is_month_settled(stored[m], m)]
        absent = sorted(needed - stored.keys() - {present}, reverse=True)
        return [present, *stale], absent
