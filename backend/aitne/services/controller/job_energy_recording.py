"""Energy of ended jobs, from accounting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.errors import AitneError, NotSupported
from aitne.core.ports.accounting import Accounting
from aitne.services.controller.leader import Leader
from aitne.store import Store

log = logging.getLogger(__name__)

EVERY_S = 300.0
FIRST = timedelta(days=1)
"""Time for which a new leader asks back."""
LATE = timedelta(minutes=10)
"""Time after the end of a job in which Slurm still adds the energy of its last steps, and in which
the platform sees the end."""


class EnergyWatch:
    """Task that stores the energy that the scheduler's plugin measured for ended jobs."""

    def __init__(
        self,
        store: Store,
        accounting: Accounting | None,
        leader: Leader,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._accounting = accounting
        self._leader = leader
        self._clock = clock
        self._asked_at: datetime | None = None
        self._silent = False

    async def run(self) -> None:
        """Store the energy of ended jobs every five minutes until cancelled. Returns at once if
        there is no accounting.
        """
        if self._accounting is None:
            return
        while True:
            await self.store_energy(self._accounting)
            await asyncio.sleep(EVERY_S)

    async def store_energy(self, accounting: Accounting) -> None:
        """Store the energy of the jobs that ended since the last call."""
        now = self._clock()
        since = now - FIRST if self._asked_at is None else self._asked_at - LATE
        try:
            found = await accounting.read_energy(since, now)
        except NotSupported:
            return  # a cluster without accounting, or a broker of an earlier release
        except AitneError as error:
            if not self._silent:
                log.warning("The energy of jobs is not known: %s", error.message)
            self._silent = True
            return
        self._silent = False
        await self._store.save_energy(found, epoch=self._leader.epoch)
        self._asked_at = now
