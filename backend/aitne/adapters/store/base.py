"""What the parts of the store share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, Table, select, text, update
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


async def take_due(
    db: Database,
    table: Table,
    due: Select[Any],
    lockable: Select[Any],
    *,
    epoch: int,
    until: datetime,
) -> Sequence[RowMapping]:
    """Lease rows to the controller that leads, until then: of two who ask, each row goes to one.

    ``due`` finds their ids, and ``lockable`` too, by a query whose rows can be locked.
    """
    # Mostly there is nothing to do; then nothing is written, and nobody is woken.
    async with db.read() as connection:
        await require_epoch(connection, epoch)
        if (await connection.execute(due)).first() is None:
            return []
    async with db.write() as tx:
        await require_epoch(tx, epoch)
        taken = (
            update(table)
            .where(table.c.id.in_(lockable.with_for_update(skip_locked=True)))
            .values(tries=table.c.tries + 1, available_at=until, leased_in=epoch)
            .returning(*table.c)
        )
        rows = (await tx.execute(taken)).mappings().all()
    return sorted(rows, key=lambda row: int(row["id"]))
