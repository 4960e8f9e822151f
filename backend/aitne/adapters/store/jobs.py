"""Store of jobs: creation, queries and lists."""

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
from aitne.core.jobs.states import LIVE, JobState
from aitne.core.models.job import Job, JobFilter, JobOrigin, JobType
from aitne.core.models.job_search import JobSort
from aitne.core.ports.store import CreatedJob, Idempotency, JobStore, OutboxKind, Page
from aitne.core.sessions.names import goes_on

_jobs = tables.jobs
_MAX_PAGE = 1_000
_OF_PLATFORM = _jobs.c.origin == JobOrigin.PLATFORM
# In a fixed order, so that the text of the statement is always the same.
LIVE_STATES = sorted(LIVE)


class JobRecords(StorePart, JobStore):
    """Part of ``JobStore`` that creates and reads jobs."""

    @override
    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> CreatedJob:
        try:
            async with self._db.write() as tx:
                if idempotency is not None:
                    existing = await self._claim(tx, idempotency, job)
                    if existing is not None:
                        return CreatedJob(job=existing, replayed=True)
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
                f"The job {job.id} already exists. Use a new ID for a new job."
            ) from error
        return CreatedJob(job=job, replayed=False)

    async def _claim(self, tx: Transaction, wish: Idempotency, job: Job) -> Job | None:
        """Claim the key for ``job``, or return the job that has it.

        A concurrent request holds its key uncommitted: the insert waits for its end.
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
        key_row = (await tx.execute(query)).one()
        _check_same(wish, key_row.request_hash)
        query = select(*JOB_COLUMNS).where(_jobs.c.id == key_row.job_id)
        row = (await tx.execute(query)).mappings().first()
        if row is None:
            raise Conflict(
                f"The job that this request created before ({key_row.job_id}) was deleted. Use a new "
                "idempotency key for a new job."
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
            jobs = await _read(connection, [job_id])
        if not jobs or jobs[0].is_task_group:
            raise NotFound("job", job_id)
        return jobs[0]

    @override
    async def first_namesake(self, job: Job) -> Job | None:
        earlier = or_(
            _jobs.c.created_at < job.created_at,
            and_(_jobs.c.created_at == job.created_at, _jobs.c.id < job.id),
        )
        query = (
            select(*JOB_COLUMNS)
            .where(
                _jobs.c.owner == job.owner,
                _jobs.c.name == job.name,
                _jobs.c.state.in_(LIVE_STATES),
                _jobs.c.array_job_id.is_(None),
                earlier,
            )
            .order_by(_jobs.c.created_at, _jobs.c.id)
            .limit(1)
        )
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else job_of(row)

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
        # Rows are sorted and skipped by ID alone; only the rows of the page are read completely. The
        # first may be a task group whose last task was on the previous page.
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
        jobs = [*islice(order.tasks(rows, cursor), limit + 1)]
        items = tuple(jobs[:limit])
        more = len(jobs) > limit
        return Page(items=items, next_cursor=order.cursor(items[-1]) if more else None, total=total)

    @override
    async def count_jobs(self, where: JobFilter, *, visible_to: str | None) -> dict[JobState, int]:
        matches = and_(True, *_conditions(where, visible_to))
        async with self._db.read() as connection:
            return await _counts(connection, matches, with_groups=not where.top_level_only)

    @override
    async def live_jobs(self) -> Sequence[Job]:
        query = select(*JOB_COLUMNS).where(_jobs.c.state.in_(LIVE_STATES), _OF_PLATFORM)
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.created_at, _jobs.c.id))
            return [job_of(row) for row in rows.mappings()]

    @override
    async def count_live(self, owner: str) -> int:
        """Count the owner's jobs that have not ended, including tasks of arrays."""
        matches = and_(_jobs.c.owner == owner, _jobs.c.state.in_(LIVE_STATES), _OF_PLATFORM)
        async with self._db.read() as connection:
            return sum((await _counts(connection, matches)).values())

    @override
    async def count_by_state(self) -> dict[JobState, int]:
        """Count the jobs of each state; for an array its tasks, since only these run."""
        async with self._db.read() as connection:
            return await _counts(connection, _jobs.c.is_array.is_(False) & _OF_PLATFORM)


async def _read(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    """Read the jobs that exist, including tasks without their own row."""
    jobs = await _rows(connection, job_ids)
    absent = {*job_ids}.difference(job.id for job in jobs)
    tasks = await find_tasks(connection, absent)
    # Between the two statements a task may have been given its own row.
    absent.difference_update(job.id for job in tasks)
    return jobs + tasks + (await _rows(connection, absent))


async def _rows(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    jobs: list[Job] = []
    for some in batched([*job_ids], MOST_IDS):
        query = select(*JOB_COLUMNS).where(_jobs.c.id.in_(some))
        jobs += map(job_of, (await connection.execute(query)).mappings())
    return jobs


async def _counts(
    connection: AsyncConnection, matches: ColumnElement[bool], *, with_groups: bool = True
) -> Counter[JobState]:
    """Count the jobs of each state: the rows by an index alone, then the tasks that share rows."""
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
    """Check that no other session of its lineage is live. Raises ``Conflict``.

    The rows of the sessions that it continues are locked: other requests to continue them wait here.
    """
    before = [job.spec.lineage, job.spec.continues]
    lock = select(_jobs.c.id).where(_jobs.c.id.in_(before)).order_by(_jobs.c.id)
    await tx.execute(lock.with_for_update(key_share=True))
    query = select(*JOB_COLUMNS).where(
        _jobs.c.owner == job.owner,
        _jobs.c.type == JobType.SESSION,
        _jobs.c.state.in_(LIVE_STATES),
    )
    for other in map(job_of, (await tx.execute(query)).mappings()):
        if (other.spec.lineage or other.id) == job.spec.lineage:
            raise Conflict(goes_on(other))


def _check_same(wish: Idempotency, request_hash: str) -> None:
    if request_hash != wish.request_hash:
        raise IdempotencyConflict(
            f"The idempotency key {wish.key!r} was used before with another request. Use a new "
            "key for a new request, and the same one only to repeat the same request."
        )


def _conditions(job_filter: JobFilter, visible_to: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if visible_to is not None:
        of_user = select(tables.members.c.project).where(tables.members.c.user_name == visible_to)
        conditions.append(or_(_jobs.c.owner == visible_to, _jobs.c.project.in_(of_user)))
    if job_filter.owner is not None:
        conditions.append(_jobs.c.owner == job_filter.owner)
    if job_filter.project is not None:
        conditions.append(_jobs.c.project == job_filter.project)
    if job_filter.type is not None:
        conditions.append(_jobs.c.type == job_filter.type)
    if job_filter.origin is not None:
        conditions.append(_jobs.c.origin == job_filter.origin)
    if job_filter.states:
        conditions.append(_jobs.c.state.in_(sorted(job_filter.states)))
    if job_filter.name_contains:
        conditions.append(
            _jobs.c.name_folded.contains(fold(job_filter.name_contains), autoescape=True)
        )
    if job_filter.array_job_id is not None:
        conditions.append(_jobs.c.array_job_id == job_filter.array_job_id)
    if job_filter.top_level_only:
        conditions.append(_jobs.c.array_job_id.is_(None))
    if job_filter.array is not None:
        conditions.append(_jobs.c.is_array.is_(job_filter.array))
    return [*conditions, *_more_conditions(job_filter)]


def _more_conditions(job_filter: JobFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions on the resources, image and template of jobs, and on their nodes."""
    if job_filter.template is not None:
        yield _jobs.c.template == job_filter.template
    if job_filter.image is not None:
        of_any = _jobs.c.image.startswith(f"{job_filter.image}:", autoescape=True)
        yield or_(_jobs.c.image == job_filter.image, of_any)
    if job_filter.node is not None:
        # A JSON list as text, on both databases; names of nodes contain no characters that JSON escapes.
        yield cast(_jobs.c.nodes, Text).contains(f'"{job_filter.node}"', autoescape=True)
    if job_filter.created_from is not None:
        yield _jobs.c.created_at >= job_filter.created_from
    if job_filter.created_before is not None:
        yield _jobs.c.created_at < job_filter.created_before
    if job_filter.min_gpus is not None:
        yield _jobs.c.gpus >= job_filter.min_gpus
    if job_filter.gpu_type is not None:
        yield _jobs.c.gpu_type == job_filter.gpu_type
