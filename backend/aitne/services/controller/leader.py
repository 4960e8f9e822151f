"""Election of the leader among controllers: a lease in the database, whose epoch is checked at
every update.
"""

from __future__ import annotations

import asyncio
import logging

from aitne.core.errors import StaleEpoch, StoreUnavailable
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.store import Store
from aitne.store.nodes_and_leases import Lease

log = logging.getLogger(__name__)

LEASE = "controller"
DURATION_S = 6.0
RENEW_S = 1.5


class Leader:
    """State of this controller as leader or follower: ``acquire`` waits for the lease and ``renew_lease``
    renews it. Updates pass ``epoch``, so that the store rejects them once another controller is the
    leader.
    """

    def __init__(self, store: Store, holder: str, counts: ControllerCounters | None = None) -> None:
        self._store = store
        self._counts = counts or ControllerCounters()
        self.holder = holder
        self._epoch: int | None = None

    @property
    def epoch(self) -> int:
        """Return the epoch of the current lease.

        Raises ``StaleEpoch`` while another controller is the leader.
        """
        if self._epoch is None:
            raise StaleEpoch("This controller is not the leader; it waits for the lease.")
        return self._epoch

    async def acquire(self) -> None:
        """Wait until this controller has acquired the lease and is the leader."""
        while True:
            try:
                lease = await self._take_lease()
            except StoreUnavailable as error:
                log.warning("The lease cannot be acquired yet: %s", error.message)
                lease = None
            if lease is not None:
                self._epoch = lease.epoch
                log.info("Leading with epoch %d.", lease.epoch)
                return
            await asyncio.sleep(RENEW_S / 3)

    async def renew_lease(self) -> None:
        """Renew the lease until it is lost, then raise ``StaleEpoch``.

        A short outage of the database does not end the leadership: each update is checked against
        the epoch, so if the lease has expired meanwhile, updates are rejected at worst.
        """
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                lease = await self._take_lease()
            except StoreUnavailable as error:
                log.warning("The lease cannot be renewed now: %s", error.message)
                continue
            if lease is None or lease.epoch != self._epoch:
                self._epoch = None
                raise StaleEpoch("Another controller is the leader now.")

    async def _take_lease(self) -> Lease | None:
        return await self._store.acquire_lease(
            LEASE, self.holder, duration_s=DURATION_S, counters=self._counts.snapshot()
        )

    async def release(self) -> None:
        """Release the lease, so that the next controller need not wait for it to expire."""
        self._epoch = None
        await self.end_lease(self.holder)

    async def end_lease(self, holder: str) -> None:
        """End the lease of the controller ``holder``; does nothing if it is not the leader."""
        await self._store.release_lease(LEASE, holder)
