"""Store of jobs that were not submitted through the platform, for example with sbatch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, func, insert, or_, select

from aitne.core.models.job import Job, JobOrigin
from aitne.store import tables
from aitne.store.database import Transaction
from aitne.store.jobs import LIVE_STATES
from aitne.store.rows import JOB_COLUMNS, event_data, job_of, row_of
from aitne.store.store_part import MOST_IDS, StorePart, require_epoch, split_into_batches

MOST_ENDED = 2_000
"""Maximum number of ended jobs that are kept of each user, among those not submitted through the
platform.
"""
_jobs = tables.jobs
_events = tables.events
_is_outside = _jobs.c.origin == JobOrigin.OUTSIDE


@dataclass(frozen=True, slots=True)
class JobOwner:
    """User who may own jobs that were not submitted through the platform, with the projects of
    which the user is a member.
    """

    name: str
    default_project: str
    projects: frozenset[str]


class OutsideJobStore(StorePart):
    """Storage of jobs that users submitted directly to the scheduler. Each belongs to the user whose
    Unix account submitted it. They have no secrets, no rows for tasks, and no outbox item when they
    are stored; otherwise they are stored like other jobs.
    """

    async def list_job_owners(self) -> Mapping[str, JobOwner]:
        """Return all users of the platform by name."""
        users, members = tables.users, tables.members
        projects: dict[str, set[str]] = defaultdict(set)
        async with self._db.read() as connection:
            for row in await connection.execute(select(members.c.user_name, members.c.project)):
                projects[row.user_name].add(row.project)
            rows = await connection.execute(select(users.c.name, users.c.default_project))
            return {
                row.name: JobOwner(row.name, row.default_project, frozenset(projects[row.name]))
                for row in rows
            }

    async def add_outside_jobs(self, jobs: Sequence[Job], *, epoch: int) -> Sequence[Job]:
        """Store the jobs that are not stored yet, each with an event, and return the added ones. A
        job is identified by scheduler ID, account and submission time.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        identity = (_jobs.c.scheduler_id, _jobs.c.account, _jobs.c.submitted_at)
        added: list[Job] = []
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            for some in split_into_batches(jobs, MOST_IDS):
                numbers = [job.scheduler_id for job in some]
                query = select(*identity).where(_is_outside, _jobs.c.scheduler_id.in_(numbers))
                stored = {tuple(row) for row in await tx.execute(query)}
                new = [
                    job
                    for job in some
                    if (job.scheduler_id, job.account, job.submitted_at) not in stored
                ]
                if new:
                    await tx.execute(insert(_jobs), [row_of(job) for job in new])
                for job in new:
                    tx.append_event(
                        "job.created",
                        event_data(job, None),
                        job_id=job.id,
                        owner=job.owner,
                        project=job.project,
                    )
                added += new
        return added

    async def list_live_outside_jobs(self) -> Sequence[Job]:
        """Return the jobs that were not submitted through the platform and have not ended, oldest
        first.
        """
        query = select(*JOB_COLUMNS).where(_is_outside, _jobs.c.state.in_(LIVE_STATES))
        async with self._db.read() as connection:
            rows = await connection.execute(query.order_by(_jobs.c.created_at, _jobs.c.id))
            return [job_of(row) for row in rows.mappings()]


async def prune_outside_jobs(tx: Transaction, before: datetime) -> None:
    """Delete jobs that were not submitted through the platform and ended before this time, and of
    each user all but the ``MOST_ENDED`` newest ended ones, together with their events.
    """
    number = func.row_number().over(
        partition_by=_jobs.c.owner, order_by=(_jobs.c.ended_at.desc(), _jobs.c.id)
    )
    ended = (
        select(_jobs.c.id, _jobs.c.ended_at, number.label("number"))
        .where(_is_outside, _jobs.c.ended_at.is_not(None))
        .subquery()
    )
    old = select(ended.c.id).where(or_(ended.c.ended_at < before, ended.c.number > MOST_ENDED))
    newest = select(func.max(_events.c.id)).scalar_subquery()
    ids = list((await tx.execute(old)).scalars())
    for some in split_into_batches(ids, MOST_IDS):
        await tx.execute(delete(_events).where(_events.c.job_id.in_(some), _events.c.id < newest))
        await tx.execute(delete(_jobs).where(_jobs.c.id.in_(some)))
