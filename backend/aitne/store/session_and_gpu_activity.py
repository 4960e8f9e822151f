"""Store of the last user activity in sessions, and of jobs that leave their GPUs idle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import and_, select, update

from aitne.core.models.job import Job
from aitne.core.models.notification import SessionActivity
from aitne.store import tables
from aitne.store.jobs import LIVE_STATES
from aitne.store.notification_and_activity_tables import activity as _activity
from aitne.store.portable_sql import insert_if_absent
from aitne.store.rows import JOB_COLUMNS, job_of
from aitne.store.store_part import StorePart, require_epoch

_jobs = tables.jobs
_FIELDS = [_activity.c[name] for name in SessionActivity.model_fields]


class ActivityStore(StorePart):
    """Storage of user activity in sessions, and of jobs with idle GPUs."""

    async def record_activity(
        self, job_id: UUID, *, active_at: datetime, seen_at: datetime, tolerance_s: float = 0.0
    ) -> SessionActivity | None:
        """Store the activity of a session at ``active_at``, which an agent reported at ``seen_at``;
        return None if there is no such job.

        Activity less than ``tolerance_s`` seconds after the stored one is not written, unless the
        user was warned. Later activity cancels warnings, with the event ``session.active`` if there
        were any.
        """
        this = _activity.c.job_id == job_id
        # Every session reports repeatedly; most reports change nothing, and nothing is written.
        async with self._db.read() as connection:
            row = (await connection.execute(select(*_FIELDS).where(this))).mappings().first()
        last_activity = None if row is None else SessionActivity.model_validate(dict(row))
        if last_activity is not None and not last_activity.warned:
            newest = max(active_at - last_activity.active_at, seen_at - last_activity.seen_at)
            if newest < timedelta(seconds=tolerance_s):
                return last_activity
        async with self._db.write() as tx:
            # The job's row is not locked: it is not changed, and its end deletes this row.
            about = select(_jobs.c.owner, _jobs.c.project).where(_jobs.c.id == job_id)
            job = (await tx.execute(about)).first()
            if job is None:
                return None
            fresh = {"job_id": job_id, "active_at": active_at, "seen_at": seen_at, "warned": 0}
            await tx.execute(insert_if_absent(tx.dialect, _activity).values(fresh))
            query = select(*_FIELDS).where(this).with_for_update()
            activity = SessionActivity.model_validate(
                dict((await tx.execute(query)).mappings().one())
            )
            values: dict[str, Any] = {"seen_at": max(seen_at, activity.seen_at)}
            if active_at > activity.active_at:
                values["active_at"] = active_at
                # Activity before a warning does not revoke it.
                if activity.warned_at is not None and active_at > activity.warned_at:
                    values |= {"warned": 0, "warned_at": None}
                    tx.append_event(
                        "session.active",
                        {"active_at": active_at.isoformat()},
                        job_id=job_id,
                        owner=job.owner,
                        project=job.project,
                    )
            await tx.execute(update(_activity).where(this).values(values))
        return activity.model_copy(update=values)

    async def list_activities(self) -> Sequence[SessionActivity]:
        """Return the last activity of each session that has not ended."""
        query = (
            select(*_FIELDS)
            .join(_jobs, _jobs.c.id == _activity.c.job_id)
            .where(_jobs.c.state.in_(LIVE_STATES))
        )
        async with self._db.read() as connection:
            rows = await connection.execute(query)
            return [SessionActivity.model_validate(dict(row)) for row in rows.mappings()]

    async def record_idle_warning(
        self, job_id: UUID, *, warned: int, at: datetime, data: dict[str, Any], epoch: int
    ) -> bool:
        """Record the warning with the number ``warned`` about an idle session, and add the event
        ``session.idle``.

        Returns False if it was recorded before or the session has been active since. Raises
        ``StaleEpoch`` if another controller is the leader.
        """
        before = and_(_activity.c.job_id == job_id, _activity.c.warned < warned)
        about = select(_jobs.c.owner, _jobs.c.project).where(_jobs.c.id == job_id)
        async with self._db.write() as tx:
            await require_epoch(tx, epoch)
            first = {"warned": warned} | ({"warned_at": at} if warned == 1 else {})
            if not (await tx.execute(update(_activity).where(before).values(first))).rowcount:
                return False
            job = (await tx.execute(about)).one()
            tx.append_event(
                "session.idle", data, job_id=job_id, owner=job.owner, project=job.project
            )
        return True

    async def list_idle_gpu_jobs(self) -> Sequence[Job]:
        """List the live jobs whose GPUs are idle, those with the longest idle time first."""
        query = (
            select(*JOB_COLUMNS)
            .where(_jobs.c.gpu_idle_since.is_not(None), _jobs.c.state.in_(LIVE_STATES))
            .order_by(_jobs.c.gpu_idle_since, _jobs.c.id)
        )
        async with self._db.read() as connection:
            return [job_of(row) for row in (await connection.execute(query)).mappings()]
