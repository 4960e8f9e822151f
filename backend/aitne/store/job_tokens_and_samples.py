"""Store of a job's data outside its row: its token, hub handover, measurements and events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import and_, case, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from aitne.core.errors import Conflict, NotFound
from aitne.core.jobs.array_job_state import make_pending_tasks_id, task_index
from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, deprecated_copy
from aitne.core.models.event import Event
from aitne.core.models.job import Job
from aitne.core.models.usage_sample import Sample
from aitne.core.units import parse_array
from aitne.store import tables
from aitne.store.array_task_groups import SPLIT
from aitne.store.ended_job_folders import FOLDER
from aitne.store.job_snapshots_and_files import PLACEMENT, SNAPSHOT, SWEEP
from aitne.store.jobs import LIVE_STATES
from aitne.store.portable_sql import insert_if_absent, upsert
from aitne.store.rows import JOB_COLUMNS, event_of, job_of, sample_of
from aitne.store.store_part import StorePart

_jobs = tables.jobs
_secrets = tables.job_secrets
_samples = tables.samples
PROFILE = "job.profile"
"""Kind of the event that a newer profile of the job was stored; it is not shown in the job's
history.
"""
_NO_HISTORY = (PROFILE, SNAPSHOT, PLACEMENT, SWEEP, SPLIT, FOLDER)


class QueuePosition(Frozen):
    """Position of a job among the pending jobs of this platform in one partition."""

    position: int
    """Position in the queue, counted from 1."""
    waiting: int
    """Number of pending jobs in the partition."""
    partition: str
    """Name of the partition."""
    place: ClassVar = deprecated_copy("position", int)


class JobDataStore(StorePart):
    """Storage of a job's data outside its row: job token, hub handover (what JupyterHub passes to a
    session), measurements, profile and events.
    """

    async def find_job_by_token(self, token_hash: str) -> Job | None:
        """Return the job (or array job) that has this job token; None if there is none or it has
        ended.
        """
        query = (
            select(*JOB_COLUMNS)
            .join(_secrets, _secrets.c.job_id == _jobs.c.id)
            .where(_secrets.c.token_hash == token_hash, _jobs.c.state.in_(LIVE_STATES))
        )
        async with self._db.read() as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else job_of(row)

    async def find_session_by_token(self, token_hash: str) -> Job | None:
        """Return the session whose programs have this session token; None if there is none, if the
        session has ended, or if the token was revoked.
        """
        query = (
            select(*JOB_COLUMNS)
            .join(_secrets, _secrets.c.job_id == _jobs.c.id)
            .where(_secrets.c.session_token_hash == token_hash, _jobs.c.state.in_(LIVE_STATES))
        )
        async with self._db.read(brief=True) as connection:
            row = (await connection.execute(query)).mappings().first()
        return None if row is None else job_of(row)

    async def save_handover(
        self,
        job_id: UUID,
        encrypted: str,
        *,
        replaces: str | None,
        session_token_hash: str | None = None,
    ) -> bool:
        """Store the hand-over: the environment and arguments that JupyterHub passes to the waiting
        agent of a session, encrypted. Return False, and store nothing, if the stored hand-over is
        not ``replaces`` (None: there is none).

        ``session_token_hash`` is the hash of the session token in it; None: the token is the one of
        the hand-over that is replaced, and as valid as before. The token is not valid if the logins
        of the owner have ended since the session was stored.

        Raises:
            NotFound: there is no such job.
            Conflict: the job has ended.
        """
        async with self._db.write() as tx:
            # The row is locked so that the job cannot end meanwhile: its end removes its secrets.
            query = select(_jobs.c.state.in_(LIVE_STATES)).where(_jobs.c.id == job_id)
            live = (await tx.execute(query.with_for_update(key_share=True))).scalar()
            if live is None:
                raise NotFound("job", job_id)
            if not live:
                raise Conflict(f"Job {job_id} has ended, so nothing more is stored for it.")
            # The row of the secrets is locked against a log-out that revokes the token meanwhile.
            await tx.execute(insert_if_absent(tx.dialect, _secrets), {"job_id": job_id})
            stored = select(_secrets.c.handover, _secrets.c.session_token_ended)
            own = _secrets.c.job_id == job_id
            row = (await tx.execute(stored.where(own).with_for_update())).one()
            if row.handover != replaces:
                return False
            values: dict[str, object] = {"handover": encrypted}
            if session_token_hash is not None and not row.session_token_ended:
                values["session_token_hash"] = session_token_hash
            await tx.execute(update(_secrets).where(own).values(values))
        return True

    async def find_handover(self, job_id: UUID) -> str | None:
        """Return the hand-over that ``save_handover`` stored; None if there is none yet."""
        query = select(_secrets.c.handover).where(_secrets.c.job_id == job_id)
        async with self._db.read() as connection:
            handover: str | None = (await connection.execute(query)).scalar()
        return handover

    async def add_samples(self, job_id: UUID, samples: Sequence[Sample]) -> None:
        """Add samples of the job's resource usage; those that are stored already are ignored. Raises
        ``NotFound``.
        """
        if not samples:
            return
        rows = [{**sample.model_dump(), "job_id": job_id} for sample in samples]
        try:
            async with self._db.write() as tx:
                await tx.execute(insert_if_absent(tx.dialect, _samples), rows)
        except IntegrityError as error:
            raise NotFound("job", job_id) from error

    async def list_samples(
        self,
        job_id: UUID,
        *,
        since: datetime | None = None,
        limit: int = 2_000,
        nodes: Collection[str] | None = None,
    ) -> Sequence[Sample]:
        """List the job's samples after ``since`` (None: all), oldest first; if there are more than
        ``limit``, an evenly spaced selection. With ``nodes``, only the samples of these nodes are
        listed, and ``limit`` is that of each node.
        """
        # If there are too many samples, the newest one is always selected.
        order = (_samples.c.time, _samples.c.node)
        part = None if nodes is None else _samples.c.node
        numbered = select(
            _samples,
            func.row_number().over(partition_by=part, order_by=order).label("number"),
            func.count().over(partition_by=part).label("total"),
        ).where(_samples.c.job_id == job_id)
        if since is not None:
            numbered = numbered.where(_samples.c.time >= since)
        if nodes is not None:  # an agent may name any number of others
            numbered = numbered.where(_samples.c.node.in_(nodes))
        rows = numbered.subquery()
        # Divide the numbers into ``limit`` equal ranges and select the last of each.
        condition = (rows.c.number * limit) // rows.c.total > (
            ((rows.c.number - 1) * limit) // rows.c.total
        )
        columns = [rows.c[name] for name in Sample.model_fields]
        query = select(*columns).where(or_(rows.c.total <= limit, condition))
        async with self._db.read() as connection:
            result = await connection.execute(query.order_by(rows.c.time, rows.c.node))
            return [sample_of(row) for row in result.mappings()]

    async def save_profile(self, job_id: UUID, profile: dict[str, Any]) -> None:
        """Store the profile of the job's ranks in place of the previous one, and replace the job's
        event ``job.profile``.

        Raises ``NotFound``.
        """
        query = select(_jobs.c.owner, _jobs.c.project).where(_jobs.c.id == job_id)
        events = tables.events.c
        async with self._db.write() as tx:
            row = (await tx.execute(query)).first()
            if row is None:
                raise NotFound("job", job_id)
            values = {"job_id": job_id, "data": profile}
            await tx.execute(upsert(tx.dialect, tables.profiles, values, ["job_id"]))
            # Clients fetch the newest profile: a run of days must not fill the event log with them.
            await tx.execute(
                delete(tables.events).where(events.job_id == job_id, events.kind == PROFILE)
            )
            tx.append_event(PROFILE, {}, job_id=job_id, owner=row.owner, project=row.project)

    async def find_profile(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the latest profile, or None if there is none."""
        query = select(tables.profiles.c.data).where(tables.profiles.c.job_id == job_id)
        async with self._db.read() as connection:
            profile: dict[str, Any] | None = (await connection.execute(query)).scalar()
        return profile

    async def add_job_event(self, job_id: UUID, kind: str, data: dict[str, Any]) -> None:
        """Add an event to the job's history without changing the job.

        All users who may see the job may see the event. Raises ``NotFound``.
        """
        query = select(_jobs.c.owner, _jobs.c.project).where(_jobs.c.id == job_id)
        async with self._db.write() as tx:
            row = (await tx.execute(query)).first()
            if row is None:
                raise NotFound("job", job_id)
            tx.append_event(kind, data, job_id=job_id, owner=row.owner, project=row.project)

    async def find_queue_position(self, job: Job) -> QueuePosition | None:
        """Return the job's position among the pending jobs of its partition, ordered by the
        scheduler's priority.

        None if the job is not pending, or the scheduler has not reported its partition and priority
        yet.
        """
        # At equal priority, the older job is first, as in Slurm.
        if job.state is not JobState.QUEUED or job.partition is None or job.priority is None:
            return None
        ahead = or_(
            _jobs.c.priority > job.priority,
            and_(
                _jobs.c.priority == job.priority,
                _jobs.c.created_at < job.created_at,
            ),
        )
        tasks = func.coalesce(_jobs.c.task_count, 1)
        own_rows = select(func.count()).where(_jobs.c.id == job.id).scalar_subquery()
        query = select(
            # A task without its own row is counted with its group.
            func.coalesce(func.sum(tasks), 0) - 1 + own_rows,
            func.coalesce(func.sum(case((ahead, tasks), else_=0)), 0),
        ).where(
            _jobs.c.state == JobState.QUEUED,
            _jobs.c.partition == job.partition,
            _jobs.c.id != job.id,
        )
        async with self._db.read() as connection:
            others, before = (await connection.execute(query)).one()
        return QueuePosition(position=before + 1, waiting=others + 1, partition=job.partition)

    async def list_job_events(self, job_id: UUID) -> Sequence[Event]:
        """List the events of the job, oldest first."""
        # The history of a task includes that of its task group until it left the group.
        own_events = await self._read_job_events(job_id)
        if task_index(job_id) is None:
            return own_events
        shared: list[Event] = []
        for event in await self._read_job_events(make_pending_tasks_id(job_id), splits=True):
            if event.kind != SPLIT:
                shared.append(event)
            elif task_index(job_id) in parse_array(event.data["split_task_ids"]).indices:
                break
        return shared + own_events

    async def _read_job_events(self, job_id: UUID, *, splits: bool = False) -> list[Event]:
        events = tables.events
        hidden = [kind for kind in _NO_HISTORY if not (splits and kind == SPLIT)]
        query = (
            select(events)
            .where(events.c.job_id == job_id, events.c.kind.not_in(hidden))
            .order_by(events.c.id)
        )
        async with self._db.read() as connection:
            return [event_of(row) for row in (await connection.execute(query)).mappings()]
