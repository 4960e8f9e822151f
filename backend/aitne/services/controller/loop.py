"""The controller's life: take the lead, then outbox, poll and sessions until the lead is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.errors import SchedulerUnavailable, StaleEpoch, StoreUnavailable
from aitne.core.ports.hub import Hub
from aitne.core.ports.scheduler import Scheduler
from aitne.core.ports.store import Store
from aitne.services.controller.connector import Connector
from aitne.services.controller.counts import CountedScheduler, Counts
from aitne.services.controller.leader import Leader
from aitne.services.controller.outbox import OutboxWorker
from aitne.services.controller.poll import Poller
from aitne.services.render import Renderer

log = logging.getLogger(__name__)

STORE_RETRY_S = 1.0
LEAST_BETWEEN_POLLS_S = 0.1
"""A scheduler that reports every change at once is still asked at most this often."""
PRUNE_EVERY = timedelta(hours=1)
KEEP_EVENTS = timedelta(days=90)
KEEP_IDEMPOTENCY_KEYS = timedelta(days=2)


class Controller:
    """Everything the leader does. ``run`` returns only when cancelled."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        hub: Hub,
        renderer: Renderer,
        clock: Callable[[], datetime],
        *,
        holder: str,
        sessions_origin: str,
        poll_interval_s: float,
    ) -> None:
        self._store = store
        counts = Counts()
        self._scheduler = scheduler = CountedScheduler(scheduler, counts)
        self._clock = clock
        self._poll_interval_s = poll_interval_s
        self._leader = Leader(store, holder, counts)
        self._outbox = OutboxWorker(
            store,
            scheduler,
            renderer,
            self._leader,
            clock,
            counts,
        )
        self._poller = Poller(store, scheduler, self._leader, clock, counts)
        self._connector_parts = (store, hub, scheduler, self._leader, clock, sessions_origin)

    async def run(self) -> None:
        """Lead, lose the lead, wait for it again, for ever."""
        while True:
            await self._leader.acquire()
            try:
                await self._lead()
            except* StaleEpoch:
                log.warning("Another controller leads now; waiting.")
            except* StoreUnavailable as errors:
                log.warning("The database does not answer: %s", errors.exceptions[0])
                await asyncio.sleep(STORE_RETRY_S)

    async def end_lead_of(self, holder: str) -> None:
        """Drop the lease of a controller that is known to be dead, so that it need not run out."""
        await self._leader.drop(holder)

    async def release(self) -> None:
        """After ``run`` was cancelled: let the next controller lead at once."""
        await self._leader.release()

    async def _lead(self) -> None:
        connector = Connector(*self._connector_parts)
        seen = await self._store.last_event_id()
        try:
            await connector.resume()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._leader.keep())
                group.create_task(self._work_on_changes(connector, seen))
                group.create_task(self._poll())
                group.create_task(self._prune())
        finally:
            await connector.close()

    async def _work_on_changes(self, connector: Connector, seen: int) -> None:
        while True:
            for event in await self._store.events_after(seen):
                seen = event.id
                await connector.on_event(event)
            if connector.interrupted:
                await connector.resume()
            await self._outbox.drain()
            # Items that were put off become due without any change, hence the short wait.
            await self._store.wait_for_change(0.5)

    async def _poll(self) -> None:
        while True:
            await self._poller.poll()
            await asyncio.sleep(LEAST_BETWEEN_POLLS_S)
            try:
                async with asyncio.timeout(self._poll_interval_s - LEAST_BETWEEN_POLLS_S):
                    await self._scheduler.changed()
            except TimeoutError:
                continue
            except SchedulerUnavailable:
                await asyncio.sleep(self._poll_interval_s)

    async def _prune(self) -> None:
        while True:
            now = self._clock()
            await self._store.prune(
                events_before=now - KEEP_EVENTS, idempotency_before=now - KEEP_IDEMPOTENCY_KEYS
            )
            await asyncio.sleep(PRUNE_EVERY.total_seconds())
