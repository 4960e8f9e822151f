"""Common base of the classes of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    RowMapping,
    Select,
    Table,
    bindparam,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import ReturningUpdate

from aitne.core.errors import StaleEpoch
from aitne.store import tables
from aitne.store.column_types import UtcDateTime
from aitne.store.database import Clock, Database, Transaction

T = TypeVar("T")
MOST_IDS = 500
"""Maximum number of IDs in one statement."""
# Statements that run for every job are built once: that takes longer than they do.
_LEADS = select(tables.leases.c.epoch).where(tables.leases.c.epoch == bindparam("epoch"))
_LEADS_LOCKED = _LEADS.with_for_update(read=True)


Check: TypeAlias = Callable[[T], None] | None
"""Function that is called with the stored object in the transaction that changes it; if it raises
an exception, nothing is changed.
"""


def split_into_batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield batches of at most ``size`` items."""
    return (items[start : start + size] for start in range(0, len(items), size))


class StorePart:
    """Base class of the classes that ``Store`` combines. Each has the methods of one subject, with
    the shared database.
    """

    _db: Database
    _clock: Clock
    _by_own_clock: bool

    async def _read_lease_time(self, connection: Transaction | AsyncConnection) -> datetime:
        """Return the current time for comparisons with leases. On PostgreSQL it is the server's
        time, which is the same for all processes (unless ``_by_own_clock`` is set).
        """
        if self._by_own_clock or self._db.address.path is not None:
            return self._clock()
        now: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
        return now


async def require_epoch(connection: Transaction | AsyncConnection, epoch: int | None) -> None:
    """Check that the controller whose lease has the number ``epoch`` is still the leader. Do
    nothing if ``epoch`` is None.

    In a transaction this stays true until the commit: the lease's row is read-locked, and another
    controller that calls ``take_lease`` waits for the lock.

    Raises:
        StaleEpoch: another controller is the leader.
    """
    if epoch is None:
        return
    query = _LEADS_LOCKED if isinstance(connection, Transaction) else _LEADS
    if (await connection.execute(query, {"epoch": epoch})).first() is None:
        raise _make_stale_epoch_error(epoch)


def _make_stale_epoch_error(epoch: int) -> StaleEpoch:
    return StaleEpoch(
        f"Another controller became the leader (epoch {epoch} has ended), so nothing was changed. "
        "This one must stop acting until it is the leader again."
    )


@dataclass(frozen=True, slots=True)
class DueItems:
    """SQL statements with which the leader reserves the due rows of a table."""

    some: Select[bool, bool]
    """Query of two booleans: whether the caller is the leader, and whether any row is due."""
    in_turn: Select[tuple[int]]
    """Query of the IDs of the due rows, in the order in which they are processed."""
    take: ReturningUpdate[Any]
    """Statement that reserves rows and returns them."""

    @classmethod
    def for_table(
        cls, table: Table, condition: ColumnElement[bool], max_per_owner: int | None = None
    ) -> DueItems:
        """Return the statements that select and reserve the due rows of ``table`` that satisfy
        ``condition``. ``max_per_owner`` is the maximum number of one owner's rows that are
        processed at a time; None: no maximum.
        """
        now, epoch = bindparam("now", type_=UtcDateTime), bindparam("epoch", type_=BigInteger)
        later = table.c.available_at > now
        # There is only one leader, so items leased in another epoch are not being processed.
        is_due = condition & or_(table.c.available_at <= now, table.c.leased_in != epoch)
        ids = _select_round_robin(table, is_due, condition & later & (table.c.leased_in == epoch))
        if max_per_owner is not None:
            ids = ids.where(ids.selected_columns.turn <= max_per_owner)
        # The rows are checked again: they were not locked when their IDs were read.
        still = select(table.c.id).where(table.c.id.in_(bindparam("ids", expanding=True)), is_due)
        return cls(
            some=select(
                select(tables.leases.c.epoch).where(tables.leases.c.epoch == epoch).exists(),
                select(table.c.id).where(is_due).exists(),
            ),
            in_turn=ids.limit(bindparam("most", type_=Integer)),
            take=update(table)
            .where(table.c.id.in_(still.with_for_update(skip_locked=True)))
            .values(
                tries=table.c.tries + 1,
                available_at=bindparam("until", type_=UtcDateTime),
                leased_in=epoch,
            )
            .returning(*table.c),
        )


def _select_round_robin(
    table: Table, is_due: ColumnElement[bool], is_leased: ColumnElement[bool]
) -> Select[Any]:
    """Return a query of the IDs of due rows in round-robin order of their owners: the first row of
    every owner comes before the second row of any owner.

    Args:
        table: table with the columns ``id``, ``owner`` and ``available_at``.
        is_due: condition for due rows.
        is_leased: condition for rows that are reserved already. They count as the first rows of
            their owner.
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
    return select(turns.c.id, turns.c.turn).order_by(turns.c.turn, turns.c.available_at, turns.c.id)


async def lease_due_rows(
    db: Database, due: DueItems, *, now: datetime, epoch: int, limit: int, until: datetime
) -> Sequence[RowMapping]:
    """Reserve due rows for the leader, and return them in the order in which they are processed.
    Concurrent callers never get the same row.

    Args:
        db: the database.
        due: statements for the table.
        now: current time.
        epoch: epoch of the caller's lease.
        limit: maximum number of rows.
        until: time at which the reservation expires.

    Raises:
        StaleEpoch: another controller is the leader.
    """
    values = {"now": now, "epoch": epoch}
    # Usually no row is due, and callers look after every change: one short query answers that,
    # nothing is written, and no waiter is notified.
    async with db.read(brief=True) as connection:
        is_leader, any_due = (await connection.execute(due.some, values)).one()
    if not is_leader:
        raise _make_stale_epoch_error(epoch)
    if not any_due:
        return []
    async with db.read() as connection:
        found = await connection.execute(due.in_turn, {**values, "most": limit})
        ids = found.scalars().all()
    async with db.write(brief=True) as tx:
        await require_epoch(tx, epoch)
        taken = await tx.execute(due.take, {**values, "ids": ids, "until": until})
        rows = taken.mappings().all()
    turn = {number: place for place, number in enumerate(ids)}
    return sorted(rows, key=lambda row: turn[row["id"]])
