"""Use of each limit, read from the scheduler and kept in the store for all requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from aitne.core.errors import NotAllowed, NotSupported, SchedulerRejected, Unavailable
from aitne.core.ports.accounting import Accounting
from aitne.core.ports.store import ProjectStore
from aitne.services.controller.leader import Leader

log = logging.getLogger(__name__)

EVERY_S = 10.0
RETRY_S = 60.0


class LimitWatch:
    """Task that reads the limits and their use from accounting every few seconds, while this
    controller leads, and stores them.
    """

    def __init__(
        self,
        store: ProjectStore,
        accounting: Accounting | None,
        leader: Leader,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._accounting = accounting
        self._leader = leader
        self._clock = clock
        self._silent = False

    async def watch(self) -> None:
        """Read and store the limits periodically until cancelled; return at once if there is no
        accounting.
        """
        if self._accounting is None:
            return
        while True:
            worth_asking = await self._look(self._accounting)
            await asyncio.sleep(EVERY_S if worth_asking else RETRY_S)

    async def _look(self, accounting: Accounting) -> bool:
        try:
            usage = await accounting.in_use()
        except (Unavailable, NotSupported, NotAllowed, SchedulerRejected) as error:
            if not self._silent:
                log.warning("The use of the limits is not known: %s", error.message)
            self._silent = True
            # The values of the last answer stay in the store.
            return isinstance(error, Unavailable)
        self._silent = False
        await self._store.save_in_use(usage, self._clock(), epoch=self._leader.epoch)
        return True
