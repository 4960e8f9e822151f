"""Store of the outbox: actions in external systems, such as submissions and cancellations, that the
controller carries out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

from pydantic import Field
from sqlalchemy import and_, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.models.base import Frozen
from aitne.core.models.job import Job
from aitne.store import tables
from aitne.store.array_task_groups import lock_jobs
from aitne.store.database import Transaction
from aitne.store.store_part import DueItems, StorePart, lease_due_rows, require_epoch

_outbox = tables.outbox
_ADD = insert(_outbox)
_DROP = delete(_outbox).where(_outbox.c.id == bindparam("row_id"))
_RELEASE = (
    update(_outbox).where(_outbox.c.dependency == bindparam("needed")).values(dependency=None)
)


class OutboxKind(StrEnum):
    """Kind of action in the outbox: submit a job, cancel it, extend its time limit, hold or release
    it as its specification says, or set how many tasks of its array run at once.
    """

    SUBMIT = "submit"
    CANCEL = "cancel"
    EXTEND = "extend"
    HOLD = "hold"
    THROTTLE = "throttle"


class OutboxItem(Frozen):
    """Entry of the outbox: an action that the controller must carry out in the scheduler at least
    once.
    """

    id: int
    kind: OutboxKind
    job_id: UUID
    attempt: int
    data: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the action, such as ``time_limit_s``."""
    tries: int = 0
    """Number of times that the item was reserved."""
    created_at: datetime


async def add_outbox_items(
    tx: Transaction,
    kind: OutboxKind,
    jobs: Iterable[Job],
    now: datetime,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Add one item for each job to the outbox, due immediately.

    Args:
        tx: the transaction.
        kind: action of the controller.
        jobs: the jobs.
        now: current time.
        data: parameters of the action, which are copied to each item; None: it has none.
    """
    rows = [
        {
            "kind": kind,
            "job_id": job.id,
            "owner": job.owner,
            "attempt": job.attempt,
            "data": dict(data or {}),
            "tries": 0,
            "created_at": now,
            "available_at": now,
        }
        for job in jobs
    ]
    if rows:
        await tx.execute_without_result(_ADD, rows)


async def delete_submit_items(tx: Transaction, job_ids: Sequence[UUID]) -> set[UUID]:
    """Delete the SUBMIT items of these jobs from the outbox; return the IDs of the jobs that had
    one.
    """
    statement = delete(_outbox).where(
        _outbox.c.kind == OutboxKind.SUBMIT, _outbox.c.job_id.in_(job_ids)
    )
    return set((await tx.execute(statement.returning(_outbox.c.job_id))).scalars())


async def find_queued_jobs(tx: Transaction, kind: OutboxKind, job_ids: Sequence[UUID]) -> set[UUID]:
    """Return the IDs of the jobs that already have an item of this kind in the outbox."""
    query = select(_outbox.c.job_id).where(_outbox.c.kind == kind, _outbox.c.job_id.in_(job_ids))
    return set((await tx.execute(query)).scalars())


async def find_longest_requested_limit(
    source: Transaction | AsyncConnection, job_id: UUID
) -> int | None:
    """Return the longest time limit in seconds in the job's EXTEND items; None if there are none."""
    query = select(_outbox.c.data).where(
        _outbox.c.kind == OutboxKind.EXTEND, _outbox.c.job_id == job_id
    )
    limits = [int(data["time_limit_s"]) for data in (await source.execute(query)).scalars()]
    return max(limits, default=None)


async def delete_outbox_items(tx: Transaction, item_ids: Collection[int]) -> None:
    """Delete items from the outbox; IDs that do not exist are ignored."""
    if item_ids:
        await tx.execute_without_result(_DROP, [{"row_id": item_id} for item_id in item_ids])


async def release_outbox_items(tx: Transaction, job_ids: Sequence[UUID]) -> None:
    """Make outbox items due that wait for a change of one of these jobs."""
    await tx.execute_without_result(_RELEASE, [{"needed": job_id} for job_id in job_ids])


@cache
def _make_due_items(kinds: frozenset[OutboxKind], begun: bool) -> DueItems:
    condition = and_(
        _outbox.c.kind.in_(sorted(kinds)),
        _outbox.c.tries >= int(begun),
        _outbox.c.dependency.is_(None),
    )
    return DueItems.for_table(_outbox, condition)


class OutboxStore(StorePart):
    """Storage of the outbox."""

    async def find_requested_time_limit(self, job_id: UUID) -> int | None:
        """Return the longest time limit in seconds among the job's EXTEND items in the outbox; None
        if there are none.
        """
        async with self._db.read() as connection:
            return await find_longest_requested_limit(connection, job_id)

    async def lease_outbox_items(
        self,
        *,
        epoch: int,
        limit: int,
        lease_s: float,
        kinds: Collection[OutboxKind] = frozenset(OutboxKind),
        begun: bool = False,
    ) -> Sequence[OutboxItem]:
        """Reserve up to ``limit`` items of these kinds that are due and not reserved, and return
        them.

        The owners of the jobs take turns; among the items of one owner, the one that has been due
        longest comes first. With ``begun``, only items that were reserved before are considered. A
        reservation ends after ``lease_s`` seconds, or when another controller becomes the leader.
        Raises ``StaleEpoch`` if another controller is the leader.
        """
        now = self._clock()
        rows = await lease_due_rows(
            self._db,
            _make_due_items(frozenset(kinds), begun),
            now=now,
            epoch=epoch,
            limit=limit,
            until=now + timedelta(seconds=lease_s),
        )
        return [OutboxItem.model_validate(dict(row)) for row in rows]

    async def finish_outbox_items(self, *item_ids: int, epoch: int) -> None:
        """Mark the items as done. Raises ``StaleEpoch`` if another controller is the leader."""
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            await delete_outbox_items(tx, item_ids)

    async def return_outbox_items(self, *item_ids: int, epoch: int, delay_s: float) -> None:
        """Return items to the outbox, so that they are due again after ``delay_s`` seconds.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        later = self._clock() + timedelta(seconds=delay_s)
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            await tx.execute(
                update(_outbox)
                .where(_outbox.c.id.in_(item_ids))
                .values(available_at=later, leased_in=None)
            )

    async def hold_outbox_items(self, dependencies: Mapping[int, Job], *, epoch: int) -> None:
        """Return items to the outbox that must wait for another job; an item becomes due again when
        that job ends or gets another scheduler ID.

        ``dependencies`` maps an item's ID to the other job, as the caller has read it; if that job
        has changed since, the item is due at once. Raises ``StaleEpoch`` if another controller is
        the leader.
        """
        items: dict[UUID, list[int]] = defaultdict(list)
        for item_id, job in dependencies.items():
            items[job.id].append(item_id)
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            # The lock delays the end of the dependency, which then releases the items held here; a task
            # gets its own row, whose ID that end uses.
            locked = await lock_jobs(tx, [*items])
            now = self._clock()
            for job in {job.id: job for job in dependencies.values()}.values():
                same = job.id in locked and locked[job.id].version == job.version
                statement = update(_outbox).where(_outbox.c.id.in_(items[job.id]))
                dependency = job.id if same else None
                await tx.execute(
                    statement.values(dependency=dependency, available_at=now, leased_in=None)
                )

    async def get_outbox_depth(self) -> tuple[int, float]:
        """Return the number of pending outbox items and the age of the oldest in seconds (0.0 if
        there are none), without items that wait for another job.
        """
        query = select(func.count(), func.min(_outbox.c.created_at)).where(
            _outbox.c.dependency.is_(None)
        )
        async with self._db.read() as connection:
            count, oldest = (await connection.execute(query)).one()
        if oldest is None:
            return 0, 0.0
        return count, max(0.0, (self._clock() - oldest).total_seconds())
