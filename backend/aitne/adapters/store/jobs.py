"""Store of jobs: creation, queries and lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    cast,
    func,
    insert,
    literal,
    or_,
    select,
)
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
from aitne.core.jobs.states import ACTIVE, LIVE, JobState
from aitne.core.models.job import Job, JobFilter, JobOrigin, JobType
from aitne.core.models.job_search import JobSort
from aitne.core.ports.store import (
    CreatedJob,
    Idempotency,
    JobStore,
    NewJob,
    OutboxKind,
    Page,
)
from aitne.core.sessions.names import goes_on

_jobs = tables.jobs
_MAX_PAGE = 1_000
_OF_PLATFORM = _jobs.c.origin == JobOrigin.PLATFORM
# In a fixed order, so that the text of the statement is always the same.
LIVE_STATES = sorted(LIVE)
_ACTIVE_STATES = sorted(ACTIVE)


_ADD = insert(_jobs)
_READ = select(*JOB_COLUMNS).where(_jobs.c.id.in_(bindparam("ids", expanding=True)))
_LIVE_OF = and_(
    _jobs.c.owner == bindparam("live_owner"), _jobs.c.state.in_(LIVE_STATES), _OF_PLATFORM
)
_COUNT_LIVE = select(
    select(func.count()).select_from(_jobs).where(_LIVE_OF).scalar_subquery(),
    # The tasks that share rows are added separately, so that the rows are counted by an index alone.
    select(func.coalesce(func.sum(_jobs.c.task_count - 1), 0))
    .where(_jobs.c.task_count.is_not(None), _LIVE_OF)
    .scalar_subquery(),
)


class JobRecords(StorePart, JobStore):
    """Part of ``JobStore`` that creates and reads jobs."""

    @override
    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> CreatedJob:
        (created,) = await self.create_jobs([NewJob(job, tasks, idempotency)])
        return created

    @override
    async def create_jobs(self, new_jobs: Sequence[NewJob]) -> Sequence[CreatedJob]:
        try:
            async with self._db.write(brief=True) as tx:
                existing = await self._claim(tx, new_jobs)
                await self._insert(tx, [new for new in new_jobs if new.job.id not in existing])
        except IntegrityError as error:
            raise Conflict(
                "A job with this ID already exists. Use a new ID for a new job."
            ) from error
        return [
            CreatedJob(job=existing.get(new.job.id, new.job), replayed=new.job.id in existing)
            for new in new_jobs
        ]

    async def _insert(self, tx: Transaction, new_jobs: Sequence[NewJob]) -> None:
        """Insert new jobs with their outbox items (actions for the controller) and events."""
        for new in new_jobs:
            if new.job.spec.lineage is not None:
                await _check_alone(tx, new.job)
        jobs = [new.job for new in new_jobs]
        if not jobs:
            return
        await tx.send(_ADD, [row_of(row) for new in new_jobs for row in (new.job, *new.tasks)])
        await queue(tx, OutboxKind.SUBMIT, jobs, self._clock())
        for job in jobs:
            tx.append_event(
                "job.created",
                event_data(job, None),
                job_id=job.id,
                owner=job.owner,
                project=job.project,
            )

    async def _claim(self, tx: Transaction, new_jobs: Sequence[NewJob]) -> dict[UUID, Job]:
        """Insert the idempotency keys of the new jobs. Return, for each new job whose key exists
        already, the job of the earlier request, by the ID of the new job, which must not be stored.

        If a concurrent request has inserted the same key without a commit yet, the insert waits for
        it.
        """
        wishes = {new.idempotency.key: new for new in new_jobs if new.idempotency is not None}
        if not wishes:
            return {}
        table, now = tables.idempotency, self._clock()
        rows = [
            {**wish.model_dump(), "job_id": new.job.id, "created_at": now}
            for new in wishes.values()
            if (wish := new.idempotency) is not None
        ]
        claim = insert_if_absent(tx.dialect, table).returning(table.c.key)
        claimed = set((await tx.execute(claim, rows)).scalars())
        taken = [new.idempotency for key, new in wishes.items() if key not in claimed]
        existing = await _replays(tx, [wish for wish in taken if wish is not None])
        for wish in taken:
            if wish is not None and wish.key not in existing:
                raise Conflict(
                    f"The job that a request with the idempotency key {wish.key!r} created before was "
                    "deleted. Use a new key for a new job."
                )
        return {wishes[key].job.id: job for key, job in existing.items()}

    @override
    async def find_replays(self, wishes: Sequence[Idempotency]) -> Mapping[str, Job]:
        async with self._db.read(brief=True) as connection:
            return await _replays(connection, wishes)

    @override
    async def get_job(self, job_id: UUID) -> Job:
        async with self._db.read(brief=True) as connection:
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
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else job_of(row)

    @override
    async def get_jobs(self, job_ids: Collection[UUID]) -> Sequence[Job]:
        if not job_ids:
            return ()
        async with self._db.read(brief=True) as connection:
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
    async def live_jobs(self, *, owner: str | None = None) -> Sequence[Job]:
        query = select(*JOB_COLUMNS).where(_jobs.c.state.in_(LIVE_STATES), _OF_PLATFORM)
        if owner is not None:
            query = query.where(_jobs.c.owner == owner)
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.created_at, _jobs.c.id))
            return [job_of(row) for row in rows.mappings()]

    @override
    async def count_live(self, owner: str) -> int:
        """Return the number of the owner's jobs that have not ended, including tasks of arrays."""
        async with self._db.read(brief=True) as connection:
            rows, shared = (await connection.execute(_COUNT_LIVE, {"live_owner": owner})).one()
        return int(rows + shared)

    @override
    async def count_by_state(self, *, live_only: bool = False) -> dict[JobState, int]:
        """Return the number of jobs in each state, or in each state that is not final. Of an array,
        only its tasks are counted, since only these run.
        """
        matches = _jobs.c.is_array.is_(False) & _OF_PLATFORM
        if live_only:
            matches &= _jobs.c.state.in_(LIVE_STATES)
        async with self._db.read() as connection:
            return await _counts(connection, matches)


async def _read(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    """Return the jobs and array tasks with these IDs; IDs that do not exist are omitted. Tasks of
    an array that are stored together in one row (a task group) are found too.
    """
    jobs = await _rows(connection, job_ids)
    absent = {*job_ids}.difference(job.id for job in jobs)
    tasks = await find_tasks(connection, absent)
    # Between the two statements a task may have been given its own row.
    absent.difference_update(job.id for job in tasks)
    return jobs + tasks + (await _rows(connection, absent))


async def _rows(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    jobs: list[Job] = []
    for some in batched([*job_ids], MOST_IDS):
        jobs += map(job_of, (await connection.execute(_READ, {"ids": some})).mappings())
    return jobs


async def _counts(
    connection: AsyncConnection, matches: ColumnElement[bool], *, with_groups: bool = True
) -> Counter[JobState]:
    """Return the number of jobs in each state that satisfy the condition, counted by an index of
    the database. With ``with_groups``, a task group counts as the number of its tasks, otherwise as
    one.
    """
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
    """Raise ``Conflict`` if another live session has the same lineage as the session ``job``. A
    lineage consists of a session and those that continue it, directly or through others.

    The first session of the lineage and the one that ``job`` continues are locked until the end of
    the transaction, so that concurrent requests to continue either wait.
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


async def _replays(
    source: Transaction | AsyncConnection, wishes: Sequence[Idempotency]
) -> dict[str, Job]:
    """Return the jobs that earlier requests of the same user created with these idempotency keys,
    by key. Raises ``IdempotencyConflict`` if a key was used with another request.
    """
    table, by_key = tables.idempotency, {wish.key: wish for wish in wishes}
    if not by_key:
        return {}
    query = select(table.c.key.label("used_key"), table.c.request_hash, *JOB_COLUMNS).where(
        table.c.owner == wishes[0].owner,
        table.c.key.in_(by_key),
        _jobs.c.id == table.c.job_id,
    )
    rows = (await source.execute(query)).mappings().all()
    for row in rows:
        _check_same(by_key[row["used_key"]], row["request_hash"])
    return {row["used_key"]: job_of(row) for row in rows}


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
    if job_filter.session_id is not None:
        conditions.append(_jobs.c.session_id == job_filter.session_id)
    if job_filter.top_level_only:
        conditions.append(_jobs.c.array_job_id.is_(None))
    if job_filter.array is not None:
        conditions.append(_jobs.c.is_array.is_(job_filter.array))
    return [*conditions, *_more_conditions(job_filter)]


def _more_conditions(job_filter: JobFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the SQL conditions of the filter on jobs' templates, images, nodes, times of creation
    and resources.
    """
    if job_filter.template is not None:
        yield _jobs.c.template == job_filter.template
    if job_filter.image is not None:
        of_any = _jobs.c.image.startswith(f"{job_filter.image}:", autoescape=True)
        yield or_(_jobs.c.image == job_filter.image, of_any)
    if job_filter.node is not None:
        # A JSON list as text, on both databases; names of nodes contain no characters that JSON escapes.
        yield cast(_jobs.c.nodes, Text).contains(f'"{job_filter.node}"', autoescape=True)
    if job_filter.partition is not None:
        # A pending job may have several, separated by commas.
        one_of = literal(",") + _jobs.c.partition + literal(",")
        yield one_of.contains(f",{job_filter.partition},", autoescape=True)
    if job_filter.active_at is not None:
        yield func.coalesce(_jobs.c.allocated_at, _jobs.c.started_at) <= job_filter.active_at
        # Written as alternatives, so that each uses its index.
        yield or_(
            _jobs.c.ended_at > job_filter.active_at,
            and_(_jobs.c.ended_at.is_(None), _jobs.c.state.in_(_ACTIVE_STATES)),
        )
    if job_filter.created_from is not None:
        yield _jobs.c.created_at >= job_filter.created_from
    if job_filter.created_before is not None:
        yield _jobs.c.created_at < job_filter.created_before
    if job_filter.min_gpus is not None:
        yield _jobs.c.gpus >= job_filter.min_gpus
    if job_filter.gpu_type is not None:
        yield _jobs.c.gpu_type == job_filter.gpu_type
