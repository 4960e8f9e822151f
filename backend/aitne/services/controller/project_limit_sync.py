"""Limits of projects and their use: given to the scheduler, or read from its accounting, and kept in the
store for all requests."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import cast

from aitne.core.errors import NotAllowed, NotSupported, SchedulerRejected, Unavailable
from aitne.core.models.event import Event
from aitne.core.models.limits import HeldLimit, HeldLimits, LimitUsage, ProjectLayers
from aitne.core.ports.accounting import Accounting
from aitne.core.ports.scheduler import LimitHolder, Scheduler
from aitne.core.projects.limit_layers import cap_member_limits, combine_limits
from aitne.services.controller.leader import Leader
from aitne.services.projects.project_balance import month_of, months_between
from aitne.store import Store

log = logging.getLogger(__name__)

EVERY_S = 10.0
RETRY_S = 60.0
USE_EVERY_S = 1.0
"""Seconds between queries of a scheduler that enforces the limits itself and answers from
memory.
"""
USAGE_EVERY = timedelta(seconds=60)
"""Interval at which the used GPU-hours are read, where limits on GPU-hours exist."""


class LimitWatch:
    """Task that periodically stores the limits of projects and their current use while this
    controller is the leader.

    If the scheduler adapter enforces the limits, the task also sends them to the adapter: at the
    start and after each change of a project.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        accounting: Accounting | None,
        leader: Leader,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._holder = cast(LimitHolder, scheduler) if scheduler.capabilities.limits else None
        self._accounting = accounting
        self._leader = leader
        self._clock = clock
        self._silent = False
        self._changed = asyncio.Event()

    def on_event(self, event: Event) -> None:
        """Send the limits to the scheduler again if the event reports a change of a project."""
        if event.kind.startswith("project."):
            self._changed.set()

    async def run(self) -> None:
        """Store the limits and their use periodically until cancelled.

        Returns at once if the scheduler adapter enforces no limits and there is no accounting.
        """
        if self._holder is not None:
            await self._give_limits(self._holder)
        if self._accounting is None:
            return
        while True:
            worth_asking = await self._store_usage(self._accounting)
            await asyncio.sleep(EVERY_S if worth_asking else RETRY_S)

    # --- limits that the scheduler itself holds --------------------------------------------------

    async def _give_limits(self, holder: LimitHolder) -> None:
        limits, read_at = await self.limits(), self._clock()
        saved: LimitUsage | None = None
        saved_at = read_at
        while True:
            try:
                usage = await holder.set_limits(limits)
            except Unavailable as error:
                self._log_warning_once(error.message)
                await asyncio.sleep(EVERY_S)
                continue
            self._silent = False
            now = self._clock()
            if usage != saved or now - saved_at > timedelta(seconds=EVERY_S):
                await self._store.save_limit_usage(usage, now, epoch=self._leader.epoch)
                saved, saved_at = usage, now
            try:
                async with asyncio.timeout(USE_EVERY_S):
                    await self._changed.wait()
            except TimeoutError:
                counted = any(entry.limits.gpu_hours is not None for entry in limits.entries)
                if not counted or self._clock() - read_at < USAGE_EVERY:
                    continue
            self._changed.clear()
            limits, read_at = await self.limits(), self._clock()

    async def limits(self) -> HeldLimits:
        """Return the limits of all projects and members that are in force. Entries with a limit of
        GPU-hours also contain the GPU time that is already used.
        """
        layers = await self._store.list_limit_layers()
        entries = [
            entry for name in sorted(layers) for entry in _make_limit_entries(name, layers[name])
        ]
        counted = {entry.project for entry in entries if entry.limits.gpu_hours is not None}
        if not counted:
            return HeldLimits(entries=tuple(entries))
        used, until = await self._gpu_seconds(counted)
        return HeldLimits(
            entries=tuple(
                entry
                if entry.limits.gpu_hours is None
                else entry.model_copy(update={"gpu_s": used[entry.project, entry.user]})
                for entry in entries
            ),
            used_until=until,
        )

    async def _gpu_seconds(
        self, projects: set[str]
    ) -> tuple[Mapping[tuple[str, str | None], int], datetime | None]:
        """Return the GPU-seconds that ``projects`` and their members have used since the projects
        were created, and the time up to which usage is counted (None: the usage is not known yet).
        """
        now = self._clock()
        rows = [p for p in await self._store.list_projects(visible_to=None) if p.name in projects]
        first = month_of(min((project.created_at for project in rows), default=now))
        stored = await self._store.list_usage_months(months_between(first, month_of(now)))
        used: Counter[tuple[str, str | None]] = Counter()
        for month in stored.values():
            for row in month.rows:
                if row.account in projects:
                    used[row.account, None] += row.gpu_s
                    used[row.account, row.user] += row.gpu_s
        return used, max((month.taken_at for month in stored.values()), default=None)

    # --- limits that accounting holds ------------------------------------------------------------

    async def _store_usage(self, accounting: Accounting) -> bool:
        try:
            usage = await accounting.read_limit_usage()
        except (Unavailable, NotSupported, NotAllowed, SchedulerRejected) as error:
            self._log_warning_once(error.message)
            # The values of the last answer stay in the store.
            return isinstance(error, Unavailable)
        self._silent = False
        await self._store.save_limit_usage(usage, self._clock(), epoch=self._leader.epoch)
        return True

    def _log_warning_once(self, message: str) -> None:
        if not self._silent:
            log.warning("The use of the limits is not known: %s", message)
        self._silent = True


def _make_limit_entries(project: str, layers: ProjectLayers) -> Iterator[HeldLimit]:
    in_force = combine_limits(layers.granted, layers.own)
    if not in_force.is_empty:
        yield HeldLimit(project=project, limits=in_force)
    for user, limits in sorted(layers.members.items()):
        yield HeldLimit(project=project, user=user, limits=cap_member_limits(in_force, limits))
