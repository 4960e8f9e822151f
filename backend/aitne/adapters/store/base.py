"""Common base of the parts of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import ColumnElement, RowMapping, Select, Table, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.adapters.store import tables
from aitne.adapters.store.engine import Clock, Database, Transaction
from aitne.core.errors import StaleEpoch

T = TypeVar("T")
MOST_IDS = 500
"""Maximum number of IDs in one statement."""


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield batches of at most ``size`` items."""
    return (items[start : start + size] for start in range(0, len(items), size))


class StorePart:
    """Base class of the parts of the SQL store, each of which implements some of its methods over
    the shared database.
    """

    _db: Database
    _clock: Clock
    _by_own_clock: bool

    async def _lease_time(self, connection: Transaction | AsyncConnection) -> datetime:
        """Return the current time for leases, the same for all processes that use the database."""
        if self._by_own_clock or self._db.address.path is not None:
            return self._clock()
        now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
        return now


async def require_epoch(connection: Transaction | AsyncConnection, epoch: int | None) -> None:
    """Check that no other controller has taken over the lease since the lease of ``epoch``.

    In a transaction this stays true until the commit: the lease's row is read-locked, and the
    ``take_lease`` of another controller waits for the lock.

    Raises:
        StaleEpoch: another controller is the leader.
    """
    if epoch is None:
        return
    query = select(tables.leases.c.epoch).where(tables.leases.c.epoch == epoch)
    if isinstance(connection, Transaction):
        query = query.with_for_update(read=True)
    if (await connection.execute(query)).first() is None:
        raise _stale(epoch)


def _stale(epoch: int) -> StaleEpoch:
    return StaleEpoch(
        f"Another controller became the leader (epoch {epoch} has ended), so nothing was changed. "
        "This one must stop acting until it is the leader again."
    )


def in_turn(
    table: Table,
    is_due: ColumnElement[bool],
    is_leased: ColumnElement[bool],
    max_per_owner: int | None = None,
) -> Select[tuple[int]]:
    """Select the IDs of the rows that are due, such that the owners take turns: the first row of
    every owner comes before any owner's second.

    Reserved rows (``is_leased``) count as the first of their owner. ``max_per_owner`` is the maximum
    number of rows of one owner; None: no maximum.
    """
    leased = (
        select(table.c.owner, func.count().label("count"))
        .where(is_leased)
        .group_by(table.c.owner)
        .subquery()
    )
    nth = func.row_number().over(
        partition_by=table.c.owner, order_by=(table.c.available_at, table.c.id)
    )
    turns = (
        select(
            table.c.id,
            table.c.available_at,
            (nth + func.coalesce(leased.c.count, 0)).label("turn"),
        )
        .outerjoin(leased, leased.c.owner == table.c.owner)
        .where(is_due)
        .subquery()
    )
    ids = select(turns.c.id).order_by(turns.c.turn, turns.c.available_at, turns.c.id)
    return ids if max_per_owner is None else ids.where(turns.c.turn <= max_per_owner)


async def take_due(
    db: Database,
    table: Table,
    due: Callable[[], Select[tuple[int]]],
    is_due: ColumnElement[bool],
    *,
    epoch: int,
    until: datetime,
) -> Sequence[RowMapping]:
    """Reserve rows for the leader until ``until``, and return them; concurrent callers never get
    the same row.

    ``due`` returns the statement for their IDs, in the order in which they are served; ``is_due`` is
    checked again on the selected rows, which are not locked at that point.
    """
    leads = select(tables.leases.c.epoch).where(tables.leases.c.epoch == epoch).exists()
    # Usually no row is due, and callers look after every change: one short query answers that,
    # nothing is written, and no waiter is notified.
    async with db.read() as connection:
        row = await connection.execute(select(leads, select(table.c.id).where(is_due).exists()))
        is_leader, any_due = row.one()
        if not is_leader:
            raise _stale(epoch)
        if not any_due:
            return []
        ids = (await connection.execute(due())).scalars().all()
    async with db.write() as tx:
        await require_epoch(tx, epoch)
        still = select(table.c.id).where(table.c.id.in_(ids), is_due)
        taken = (
            update(table)
            .where(table.c.id.in_(still.with_for_update(skip_locked=True)))
            .values(tries=table.c.tries + 1, available_at=until, leased_in=epoch)
            .returning(*table.c)
        )
        rows = (await tx.execute(taken)).mappings().all()
    turn = {number: place for place, number in enumerate(ids)}
    return sorted(rows, key=lambda row: turn[row["id"]])
