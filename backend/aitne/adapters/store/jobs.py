"""Jobs: creating, reading, listing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from uuid import UUID

from sqlalchemy import ColumnElement, Text, and_, cast, func, insert, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from typing_extensions import override

from aitne.adapters.store import tables
from aitne.adapters.store.base import MOST_IDS, StorePart, batched
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.job_order import Order
from aitne.adapters.store.outbox import queue
from aitne.adapters.store.portable import insert_if_absent
from aitne.adapters.store.rows import JOB_COLUMNS, event_data, fold, job_of, row_of
from aitne.adapters.store.task_groups import find_tasks
from aitne.core.errors import Conflict, IdempotencyConflict, NotFound
from aitne.core.models.job import Job, JobFilter, JobType
from aitne.core.models.job_search import JobSort
from aitne.core.ports.store import Created, Idempotency, JobStore, OutboxKind, Page
from aitne.core.sessions import goes_on
from aitne.core.states import LIVE, JobState

_jobs = tables.jobs
_MAX_PAGE = 1_000
# In a fixed order, so that the statement is the same text every time.
LIVE_STATES = sorted(LIVE)


class JobRecords(StorePart, JobStore):
    """Part of ``JobStore`` that makes and reads jobs."""

    @override
    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> Created:
        try:
            async with self._db.write() as tx:
                if idempotency is not None:
                    known = await self._claim(tx, idempotency, job)
                    if known is not None:
                        return Created(job=known, replayed=True)
                if job.spec.lineage is not None:
                    await _check_alone(tx, job)
                await tx.execute(insert(_jobs), row_of(job))
                if tasks:
                    await tx.execute(insert(_jobs), [row_of(task) for task in tasks])
                await queue(tx, OutboxKind.SUBMIT, [job], self._clock())
                tx.append_event(
                    "job.created",
                    event_data(job, None),
                    job_id=job.id,
                    owner=job.owner,
                    project=job.project,
                )
        except IntegrityError as error:
            raise Conflict(
                f"There is a job {job.id} already. Make a new id for a new job."
            ) from error
        return Created(job=job, replayed=False)

    async def _claim(self, tx: Transaction, wish: Idempotency, job: Job) -> Job | None:
        """Take the key for ``job``, or return the job that has it.

        A request that is still in flight holds its key uncommitted: the insert waits for its end.
        """
        table = tables.idempotency
        claim = insert_if_absent(tx.dialect, table).values(
            owner=wish.owner,
            key=wish.key,
            request_hash=wish.request_hash,
            job_id=job.id,
            created_at=self._clock(),
        )
        if (await tx.execute(claim)).rowcount:
            return None
        query = select(table.c.request_hash, table.c.job_id).where(
            table.c.owner == wish.owner, table.c.key == wish.key
        )
        known = (await tx.execute(query)).one()
        _check_same(wish, known.request_hash)
        row = (
            (await tx.execute(select(*JOB_COLUMNS).where(_jobs.c.id == known.job_id)))
            .mappings()
            .one()
        )
        return job_of(row)

    @override
    async def find_replay(self, idempotency: Idempotency) -> Job | None:
        table = tables.idempotency
        query = select(table.c.request_hash, *JOB_COLUMNS).where(
            table.c.owner == idempotency.owner,
            table.c.key == idempotency.key,
            _jobs.c.id == table.c.job_id,
        )
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            return None
        _check_same(idempotency, row["request_hash"])
        return job_of(row)

    @override
    async def get_job(self, job_id: UUID) -> Job:
        async with self._db.read() as connection:
            found = await _read(connection, [job_id])
        if not found or found[0].is_task_group:
            raise NotFound("job", job_id)
        return found[0]

    @override
    async def get_jobs(self, job_ids: Collection[UUID]) -> Sequence[Job]:
        async with self._db.read() as connection:
            return await _read(connection, job_ids)

    @override
    async def list_jobs(
        self,
        where: JobFilter,
        *,
        visible_to: str | None,
        cursor: str | None = None,
        limit: int = 100,
        sort: JobSort = JobSort.CREATED,
        descending: bool = True,
    ) -> Page[Job]:
        limit = max(1, min(limit, _MAX_PAGE))
        dialect = "postgresql" if self._db.address.path is None else "sqlite"
        order = Order(sort, descending, self._clock(), dialect).at(cursor)
        matches = and_(True, *_conditions(where, visible_to))
        # Sorting and skipping is done with ids alone; only the page's rows are read whole. The first of
        # them may be a task group of which the page before had the last task.
        with_groups = not where.top_level_only
        ids = order.apply(select(_jobs.c.id).where(matches), cursor, task_groups=with_groups)
        page = (
            select(*JOB_COLUMNS, order.key().label("sort_key"))
            .where(_jobs.c.id.in_(ids.limit(limit + 2)))
            .order_by(*order.columns(task_groups=with_groups))
        )
        async with self._db.read() as connection:
            total = sum((await _counts(connection, matches, with_groups=with_groups)).values())
            rows = (await connection.execute(page)).mappings().all()
        found = [*islice(order.tasks(rows, cursor), limit + 1)]
        items = tuple(found[:limit])
        more = len(found) > limit
        return Page(items=items, next_cursor=order.cursor(items[-1]) if more else None, total=total)

    @override
    async def count_jobs(self, where: JobFilter, *, visible_to: str | None) -> dict[JobState, int]:
        matches = and_(True, *_conditions(where, visible_to))
        async with self._db.read() as connection:
            return await _counts(connection, matches, with_groups=not where.top_level_only)

    @override
    async def live_jobs(self) -> Sequence[Job]:
        query = select(*JOB_COLUMNS).where(_jobs.c.state.in_(LIVE_STATES))
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.created_at, _jobs.c.id))
            return [job_of(row) for row in rows.mappings()]

    @override
    async def count_live(self, owner: str) -> int:
        """Count the owner's jobs that have not ended, including tasks of arrays."""
        matches = and_(_jobs.c.owner == owner, _jobs.c.state.in_(LIVE_STATES))
        async with self._db.read() as connection:
            return sum((await _counts(connection, matches)).values())

    @override
    async def count_by_state(self) -> dict[JobState, int]:
        """Count the jobs of each state; of an array its tasks, since only these run."""
        async with self._db.read() as connection:
            return await _counts(connection, _jobs.c.is_array.is_(False))


async def _read(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    """Read the jobs that there are, tasks without a row of their own too."""
    found = await _rows(connection, job_ids)
    absent = {*job_ids}.difference(job.id for job in found)
    tasks = await find_tasks(connection, absent)
    # Between the two statements a task may have got a row of its own.
    absent.difference_update(job.id for job in tasks)
    return found + tasks + (await _rows(connection, absent))


async def _rows(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    found: list[Job] = []
    for some in batched([*job_ids], MOST_IDS):
        query = select(*JOB_COLUMNS).where(_jobs.c.id.in_(some))
        found += map(job_of, (await connection.execute(query)).mappings())
    return found


async def _counts(
    connection: AsyncConnection, matches: ColumnElement[bool], *, with_groups: bool = True
) -> Counter[JobState]:
    """Count the jobs of each state: rows by an index alone, then the tasks that share rows."""
    rows = select(_jobs.c.state, func.count()).where(matches).group_by(_jobs.c.state)
    counts = Counter({JobState(state): number for state, number in await connection.execute(rows)})
    if with_groups and counts:
        more = select(_jobs.c.state, func.sum(_jobs.c.task_count - 1)).where(
            _jobs.c.task_count.is_not(None), matches
        )
        for state, number in await connection.execute(more.group_by(_jobs.c.state)):
            counts[JobState(state)] += number
    return counts


async def _check_alone(tx: Transaction, job: Job) -> None:
    """Pass if no other session of its lineage lives. Raises ``Conflict``.

    The rows of the sessions that it follows are locked: who else wants to continue them waits here.
    """
    before = [job.spec.lineage, job.spec.continues]
    lock = select(_jobs.c.id).where(_jobs.c.id.in_(before)).order_by(_jobs.c.id)
    await tx.execute(lock.with_for_update(key_share=True))
    mine = select(*JOB_COLUMNS).where(
        _jobs.c.owner == job.owner,
        _jobs.c.type == JobType.SESSION,
        _jobs.c.state.in_(LIVE_STATES),
    )
    for other in map(job_of, (await tx.execute(mine)).mappings()):
        if (other.spec.lineage or other.id) == job.spec.lineage:
            raise Conflict(goes_on(other))


def _check_same(wish: Idempotency, request_hash: str) -> None:
    if request_hash != wish.request_hash:
        raise IdempotencyConflict(
            f"The idempotency key {wish.key!r} was used before with another request. Use a new "
            "key for a new request, and the same one only to repeat the same request."
        )


def _conditions(where: JobFilter, visible_to: str | None) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if visible_to is not None:
        of_user = select(tables.members.c.project).where(tables.members.c.user_name == visible_to)
        found.append(or_(_jobs.c.owner == visible_to, _jobs.c.project.in_(of_user)))
    if where.owner is not None:
        found.append(_jobs.c.owner == where.owner)
    if where.project is not None:
        found.append(_jobs.c.project == where.project)
    if where.type is not None:
        found.append(_jobs.c.type == where.type)
    if where.states:
        found.append(_jobs.c.state.in_(sorted(where.states)))
    if where.name_contains:
        found.append(_jobs.c.name_folded.contains(fold(where.name_contains), autoescape=True))
    if where.array_job_id is not None:
        found.append(_jobs.c.array_job_id == where.array_job_id)
    if where.top_level_only:
        found.append(_jobs.c.array_job_id.is_(None))
    if where.array is not None:
        found.append(_jobs.c.is_array.is_(where.array))
    return [*found, *_more_conditions(where)]


def _more_conditions(where: JobFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions on the resources, image and template of jobs, and on their nodes."""
    if where.template is not None:
        yield _jobs.c.template == where.template
    if where.image is not None:
        of_any = _jobs.c.image.startswith(f"{where.image}:", autoescape=True)
        yield or_(_jobs.c.image == where.image, of_any)
    if where.node is not None:
        # A JSON list as text, on both databases; a node's name has nothing that JSON would escape.
        yield cast(_jobs.c.nodes, Text).contains(f'"{where.node}"', autoescape=True)
    if where.created_from is not None:
        yield _jobs.c.created_at >= where.created_from
    if where.created_before is not None:
        yield _jobs.c.created_at < where.created_before
    if where.min_gpus is not None:
        yield _jobs.c.gpus >= where.min_gpus
    if where.gpu_type is not None:
        yield _jobs.c.gpu_type == where.gpu_type
