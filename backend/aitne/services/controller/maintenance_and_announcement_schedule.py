"""Events that the passage of time alone causes: the begin and end of announcements and
maintenance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.store import Store

LOOK_EVERY_S = 5.0
LEADER_GONE = timedelta(minutes=1)
"""Period before its election for which a new leader writes events, because there may have been no
leader.

Events that were written twice do no harm.
"""


class ScheduleWatch:
    """Task that writes an event when an announcement or maintenance begins or ends, so that pages
    of the portal need not poll.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._until: datetime | None = None

    async def run(self) -> None:
        """Check every few seconds, until cancelled."""
        while True:
            await self.write_events()
            await asyncio.sleep(LOOK_EVERY_S)

    async def write_events(self) -> None:
        """Write the events for announcements and maintenance that began or ended since the last
        check.
        """
        now = self._clock()
        await self._store.append_start_and_end_events(self._until or now - LEADER_GONE, now)
        self._until = now
