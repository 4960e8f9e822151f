"""What the parts of the store share."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.adapters.store import tables
from aitne.adapters.store.engine import Clock, Database, Transaction
from aitne.core.errors import StaleEpoch


class StorePart:
    """One part of the store: some of its methods, over the shared database."""

    _db: Database
    _clock: Clock
    _by_own_clock: bool

    async def _lease_time(self, connection: Transaction | AsyncConnection) -> datetime:
        """The one time by which leases run out, for all who use the database."""
        if self._by_own_clock or self._db.address.path is not None:
            return self._clock()
        now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
        return now


async def require_epoch(connection: Transaction | AsyncConnection, epoch: int | None) -> None:
    """Pass if ``epoch`` is of a lease that nobody has taken over since.

    In a transaction it stays so until the commit: the row is read-locked, and a successor's
    ``take_lease`` waits for that.

    Raises:
        StaleEpoch: another controller leads.
    """
    if epoch is None:
        return
    query = select(tables.leases.c.epoch).where(tables.leases.c.epoch == epoch)
    if isinstance(connection, Transaction):
        query = query.with_for_update(read=True)
    if (await connection.execute(query)).first() is None:
        raise StaleEpoch(
            f"Another controller took the lead (epoch {epoch} is over), so nothing was changed. This "
            "one must stop acting until it leads again."
        )
