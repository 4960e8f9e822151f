"""Store of new jobs, and of the idempotency keys with which they were requested."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.errors import Conflict, IdempotencyConflict
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job, JobType
from aitne.core.sessions.entry_points import describe_live_successor
from aitne.store import tables
from aitne.store.action_outbox import OutboxKind, add_outbox_items
from aitne.store.database import Transaction
from aitne.store.jobs import LIVE_STATES
from aitne.store.portable_sql import insert_if_absent
from aitne.store.rows import JOB_COLUMNS, event_data, job_of, row_of
from aitne.store.store_part import StorePart

_jobs = tables.jobs
_ADD = insert(_jobs)


class Idempotency(Frozen):
    """Idempotency key that a client sent with a request, and the hash of that request."""

    owner: str
    key: str
    request_hash: str

    @classmethod
    def from_request(cls, owner: str, key: str | None, verb: str, body: Any) -> Idempotency | None:
        """Return the key of a request of the user ``owner`` with its hash; None without a key.
        ``body`` is the request as JSON values.
        """
        if key is None:
            return None
        text = json.dumps([verb, body], sort_keys=True, separators=(",", ":"))
        request_hash = hashlib.sha256(text.encode()).hexdigest()
        return cls(owner=owner, key=key, request_hash=request_hash)


class CreatedJob(Frozen):
    """Result of creating a job. ``replayed`` is True if an earlier request with the same
    idempotency key created the job.
    """

    job: Job
    replayed: bool
    """Whether an earlier request with the same idempotency key created the job."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """Job that is to be stored."""

    job: Job
    tasks: Sequence[Job] = ()
    """Database rows of an array job's tasks; empty for other jobs."""
    idempotency: Idempotency | None = None
    """Idempotency key of the request; None: it had no key."""


class NewJobStore(StorePart):
    """Storage of new jobs, each with its outbox item and its event."""

    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> CreatedJob:
        """Store the job (for an array job, also the rows of its tasks), its outbox item and its
        event in one transaction.

        If the job continues a session, no other live job may continue the same session.

        Raises:
            Conflict: another session already continues the same session.
            IdempotencyConflict: the key was used with another request. While the first request with
                the key is in progress, this call waits for it and then returns the same job.
        """
        (created,) = await self.create_jobs([NewJob(job, tasks, idempotency)])
        return created

    async def create_jobs(self, new_jobs: Sequence[NewJob]) -> Sequence[CreatedJob]:
        """Store several jobs like ``create_job``, all in one transaction: after an error none of
        them is stored.

        Raises the same errors as ``create_job``.
        """
        try:
            async with self._db.write(brief=True) as tx:
                existing = await self._insert_idempotency_keys(tx, new_jobs)
                await self._insert_jobs(tx, [new for new in new_jobs if new.job.id not in existing])
        except IntegrityError as error:
            raise Conflict(
                "A job with this ID already exists. Use a new ID for a new job."
            ) from error
        return [
            CreatedJob(job=existing.get(new.job.id, new.job), replayed=new.job.id in existing)
            for new in new_jobs
        ]

    async def _insert_jobs(self, tx: Transaction, new_jobs: Sequence[NewJob]) -> None:
        """Insert new jobs with their outbox items (actions for the controller) and events."""
        for new in new_jobs:
            if new.job.spec.lineage is not None:
                await _check_only_live_session(tx, new.job)
        jobs = [new.job for new in new_jobs]
        if not jobs:
            return
        await tx.execute_without_result(
            _ADD, [row_of(row) for new in new_jobs for row in (new.job, *new.tasks)]
        )
        await add_outbox_items(tx, OutboxKind.SUBMIT, jobs, self._clock())
        for job in jobs:
            tx.append_event(
                "job.created",
                event_data(job, None),
                job_id=job.id,
                owner=job.owner,
                project=job.project,
            )

    async def _insert_idempotency_keys(
        self, tx: Transaction, new_jobs: Sequence[NewJob]
    ) -> dict[UUID, Job]:
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
        existing = await _read_replays(tx, [wish for wish in taken if wish is not None])
        for wish in taken:
            if wish is not None and wish.key not in existing:
                raise Conflict(
                    f"The job that a request with the idempotency key {wish.key!r} created before was "
                    "deleted. Use a new key for a new job."
                )
        return {wishes[key].job.id: job for key, job in existing.items()}

    async def find_replays(self, keys: Sequence[Idempotency]) -> Mapping[str, Job]:
        """Return the jobs that earlier requests with these idempotency keys of one user created, by
        key.

        ``keys`` are the requests with their keys. A job in the result need not be checked again.
        Raises ``IdempotencyConflict`` if a key was used with another request.
        """
        async with self._db.read(brief=True) as connection:
            return await _read_replays(connection, keys)


async def _check_only_live_session(tx: Transaction, job: Job) -> None:
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
            raise Conflict(describe_live_successor(other))


async def _read_replays(
    source: Transaction | AsyncConnection, keys: Sequence[Idempotency]
) -> dict[str, Job]:
    """Return the jobs that earlier requests of the same user created with these idempotency keys,
    by key. Raises ``IdempotencyConflict`` if a key was used with another request.
    """
    table, by_key = tables.idempotency, {wish.key: wish for wish in keys}
    if not by_key:
        return {}
    query = select(table.c.key.label("used_key"), table.c.request_hash, *JOB_COLUMNS).where(
        table.c.owner == keys[0].owner,
        table.c.key.in_(by_key),
        _jobs.c.id == table.c.job_id,
    )
    rows = (await source.execute(query)).mappings().all()
    for row in rows:
        _check_same(by_key[row["used_key"]], row["request_hash"])
    return {row["used_key"]: job_of(row) for row in rows}


def _check_same(key: Idempotency, request_hash: str) -> None:
    if request_hash != key.request_hash:
        raise IdempotencyConflict(
            f"The idempotency key {key.key!r} was used before with another request. Use a new "
            "key for a new request, and the same one only to repeat the same request."
        )
