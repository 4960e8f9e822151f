"""The lead among controllers: a lease in the database whose epoch guards every update."""

from __future__ import annotations

import asyncio
import logging

from aitne.core.errors import StaleEpoch, StoreUnavailable
from aitne.core.ports.store import Lease, Store
from aitne.services.controller.counts import Counts

log = logging.getLogger(__name__)

LEASE = "controller"
DURATION_S = 6.0
RENEW_S = 1.5


class Leader:
    """Holds the lease while ``keep`` runs. ``epoch`` is what every guarded update passes."""

    def __init__(self, store: Store, holder: str, counts: Counts | None = None) -> None:
        self._store = store
        self._counts = counts or Counts()
        self.holder = holder
        self._epoch: int | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the present lead. Raises ``StaleEpoch`` while somebody else leads."""
        if self._epoch is None:
            raise StaleEpoch("This controller does not lead; it waits for its turn.")
        return self._epoch

    async def acquire(self) -> None:
        """Return once this controller leads."""
        while True:
            try:
                lease = await self._take()
            except StoreUnavailable as error:
                log.warning("The lead cannot be taken yet: %s", error.message)
                lease = None
            if lease is not None:
                self._epoch = lease.epoch
                log.info("Leading with epoch %d.", lease.epoch)
                return
            await asyncio.sleep(RENEW_S / 3)

    async def keep(self) -> None:
        """Renew until the lease is lost, then raise ``StaleEpoch``.

        A database that is away for a moment does not end the lead: its updates carry the epoch, so
        the worst case of a lease that ran out meanwhile is an update that is refused.
        """
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                lease = await self._take()
            except StoreUnavailable as error:
                log.warning("The lead cannot be renewed right now: %s", error.message)
                continue
            if lease is None or lease.epoch != self._epoch:
                self._epoch = None
                raise StaleEpoch("Another controller took the lead.")

    async def _take(self) -> Lease | None:
        return await self._store.take_lease(
            LEASE, self.holder, duration_s=DURATION_S, counters=self._counts.snapshot()
        )

    async def release(self) -> None:
        """Let the next controller lead without waiting for the lease to run out."""
        self._epoch = None
        await self.drop(self.holder)

    async def drop(self, holder: str) -> None:
        """End the lease of ``holder``; nothing happens if it is not the one who leads."""
        await self._store.drop_lease(LEASE, holder)
