"""Store of jobs: queries, lists and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from uuid import UUID

from sqlalchemy import ColumnElement, Text, and_, bindparam, cast, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.errors import NotFound
from aitne.core.jobs.states import ACTIVE, LIVE, JobState
from aitne.core.models.job import Job, JobFilter, JobOrigin
from aitne.core.models.job_search import JobSort
from aitne.store import tables
from aitne.store.array_task_groups import find_grouped_tasks
from aitne.store.job_order import Order
from aitne.store.paging import Page
from aitne.store.rows import JOB_COLUMNS, fold_case, job_of
from aitne.store.store_part import MOST_IDS, StorePart, split_into_batches

_jobs = tables.jobs
_MAX_PAGE = 1_000
_OF_PLATFORM = _jobs.c.origin == JobOrigin.PLATFORM
# In a fixed order, so that the text of the statement is always the same.
LIVE_STATES = sorted(LIVE)
_ACTIVE_STATES = sorted(ACTIVE)


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


class JobStore(StorePart):
    """Queries of jobs."""

    async def get_job(self, job_id: UUID) -> Job:
        """Return a job, or a task of an array even if the task has no row of its own.

        Raises ``NotFound``, also for the ID of a task group, which is not a job.
        """
        async with self._db.read(brief=True) as connection:
            jobs = await _read_jobs(connection, [job_id])
        if not jobs or jobs[0].is_task_group:
            raise NotFound("job", job_id)
        return jobs[0]

    async def find_first_namesake(self, job: Job) -> Job | None:
        """Return the oldest live job with the same owner and name that was created before ``job``;
        None if there is none.
        """
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

    async def find_jobs(self, job_ids: Collection[UUID]) -> Sequence[Job]:
        """Return the jobs of ``job_ids`` that exist, including task groups, in no particular order."""
        if not job_ids:
            return ()
        async with self._db.read(brief=True) as connection:
            return await _read_jobs(connection, job_ids)

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
        """List jobs that match ``where``, newest first unless ``sort`` names another order.

        ``visible_to`` is the name of a user: only that user's jobs and those of the user's projects
        are listed; None: all. Raises ``InvalidInput`` if the cursor is invalid or belongs to
        another order.
        """
        limit = max(1, min(limit, _MAX_PAGE))
        dialect = "postgresql" if self._db.address.path is None else "sqlite"
        order = Order(sort, descending, self._clock(), dialect).with_time_of_cursor(cursor)
        matches = and_(True, *_make_conditions(where, visible_to))
        # Rows are sorted and skipped by ID alone; only the rows of the page are read completely. The
        # first may be a task group whose last task was on the previous page.
        with_groups = not where.top_level_only
        ids = order.apply(select(_jobs.c.id).where(matches), cursor, task_groups=with_groups)
        page = (
            select(*JOB_COLUMNS, order.sort_key().label("sort_key"))
            .where(_jobs.c.id.in_(ids.limit(limit + 2)))
            .order_by(*order.list_sort_columns(task_groups=with_groups))
        )
        async with self._db.read() as connection:
            total = sum(
                (await _count_by_state(connection, matches, with_groups=with_groups)).values()
            )
            rows = (await connection.execute(page)).mappings().all()
        jobs = [*islice(order.expand_rows(rows, cursor), limit + 1)]
        items = tuple(jobs[:limit])
        more = len(jobs) > limit
        return Page(
            items=items, next_cursor=order.encode_cursor(items[-1]) if more else None, total=total
        )

    async def count_jobs(self, where: JobFilter, *, visible_to: str | None) -> dict[JobState, int]:
        """Count the jobs that ``list_jobs`` would list, by state."""
        matches = and_(True, *_make_conditions(where, visible_to))
        async with self._db.read() as connection:
            return await _count_by_state(connection, matches, with_groups=not where.top_level_only)

    async def list_live_jobs(self, *, owner: str | None = None) -> Sequence[Job]:
        """Return the rows of the platform's jobs that have not ended, oldest first; a task group is
        one row. ``owner``: only the jobs of this user; None: of all users.

        Jobs that were not submitted through the platform are not included.
        """
        query = select(*JOB_COLUMNS).where(_jobs.c.state.in_(LIVE_STATES), _OF_PLATFORM)
        if owner is not None:
            query = query.where(_jobs.c.owner == owner)
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.created_at, _jobs.c.id))
            return [job_of(row) for row in rows.mappings()]

    async def count_live_jobs(self, owner: str) -> int:
        """Return the number of the owner's jobs that have not ended, including array jobs and each
        of their tasks, but no jobs that were not submitted through the platform.
        """
        async with self._db.read(brief=True) as connection:
            rows, shared = (await connection.execute(_COUNT_LIVE, {"live_owner": owner})).one()
        return int(rows + shared)

    async def count_jobs_by_state(self, *, live_only: bool = False) -> dict[JobState, int]:
        """Count the platform's jobs in each state; states without any may be missing.

        With ``live_only``, ended jobs are not counted, which takes long if there are many.
        """
        matches = _jobs.c.is_array.is_(False) & _OF_PLATFORM
        if live_only:
            matches &= _jobs.c.state.in_(LIVE_STATES)
        async with self._db.read() as connection:
            return await _count_by_state(connection, matches)


async def _read_jobs(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    """Return the jobs and array tasks with these IDs; IDs that do not exist are omitted. Tasks of
    an array that are stored together in one row (a task group) are found too.
    """
    jobs = await _read_job_rows(connection, job_ids)
    absent = {*job_ids}.difference(job.id for job in jobs)
    tasks = await find_grouped_tasks(connection, absent)
    # Between the two statements a task may have been given its own row.
    absent.difference_update(job.id for job in tasks)
    return jobs + tasks + (await _read_job_rows(connection, absent))


async def _read_job_rows(connection: AsyncConnection, job_ids: Collection[UUID]) -> list[Job]:
    jobs: list[Job] = []
    for some in split_into_batches([*job_ids], MOST_IDS):
        jobs += map(job_of, (await connection.execute(_READ, {"ids": some})).mappings())
    return jobs


async def _count_by_state(
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


def _make_conditions(job_filter: JobFilter, visible_to: str | None) -> list[ColumnElement[bool]]:
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
            _jobs.c.name_folded.contains(fold_case(job_filter.name_contains), autoescape=True)
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
