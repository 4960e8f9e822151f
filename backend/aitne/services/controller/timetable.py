"""Tells of what begins and ends by the clock alone: announcements and maintenance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.ports.store import Store

LOOK_EVERY_S = 5.0
LEADER_GONE = timedelta(minutes=1)
"""So far back a new leader looks: nobody may have looked meanwhile. Told twice does no harm."""


class Timetable:
    """One look for everybody, so that no page needs to ask."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._until: datetime | None = None

    async def watch(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Tell of what has begun or ended since the last look."""
        now = self._clock()
        await self._store.tell_turns(self._until or now - LEADER_GONE, now)
        self._until = now
