"""Part of the store for jobs and the outbox."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobChanges, JobFilter
from aitne.core.models.job_search import JobSort
from aitne.core.models.sample import Sample
from aitne.core.ports.store.records import (
    CreatedJob,
    Idempotency,
    NewJob,
    OutboxItem,
    OutboxKind,
    Page,
    QueuePosition,
    TransitionRequest,
)


class JobStore(Protocol):
    """Storage of jobs with their history, measurements and profiles, and of the outbox."""

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
        ...

    async def create_jobs(self, new_jobs: Sequence[NewJob]) -> Sequence[CreatedJob]:
        """Store several jobs like ``create_job``, all in one transaction: after an error none of
        them is stored.

        Raises the same errors as ``create_job``.
        """
        ...

    async def find_replays(self, wishes: Sequence[Idempotency]) -> Mapping[str, Job]:
        """Return the jobs that earlier requests with these idempotency keys of one user created, by
        key.

        ``wishes`` are the requests with their keys. A job in the result need not be checked again.
        Raises ``IdempotencyConflict`` if a key was used with another request.
        """
        ...

    async def get_job(self, job_id: UUID) -> Job:
        """Return a job, or a task of an array even if the task has no row of its own.

        Raises ``NotFound``, also for the ID of a task group, which is not a job.
        """
        ...

    async def get_jobs(self, job_ids: Collection[UUID]) -> Sequence[Job]:
        """Return the jobs of ``job_ids`` that exist, including task groups, in no particular order."""
        ...

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
        ...

    async def count_jobs(self, where: JobFilter, *, visible_to: str | None) -> dict[JobState, int]:
        """Count the jobs that ``list_jobs`` would list, by state."""
        ...

    async def array_tasks(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the tasks of an array job, by index."""
        ...

    async def array_rows(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the database rows of an array job's tasks: the rows of single tasks, ordered by
        index, and the task group's row if there is one.
        """
        ...

    async def array_task(
        self, array_job_id: UUID, index: int, *, own_row: bool = False
    ) -> Job | None:
        """Return one task of an array job; None if the array has no such task.

        With ``own_row``, a row of its own is created for the task before, so that more can be
        stored about it.
        """
        ...

    async def split_tasks(self, array_job_id: UUID, indices: Collection[int]) -> Sequence[Job]:
        """Create separate database rows for the tasks with these indices, which are stored in the
        row of the array's task group until now.

        Returns the rows of all tasks in ``indices`` that the array has, and the task group if it
        still contains tasks.
        """
        ...

    async def live_jobs(self, *, owner: str | None = None) -> Sequence[Job]:
        """Return the rows of the platform's jobs that have not ended, oldest first; a task group is
        one row. ``owner``: only the jobs of this user; None: of all users.

        Jobs that were not submitted through the platform are not included.
        """
        ...

    async def count_live(self, owner: str) -> int:
        """Return the number of the owner's jobs that have not ended, including array jobs and each
        of their tasks, but no jobs that were not submitted through the platform.
        """
        ...

    async def count_by_state(self, *, live_only: bool = False) -> dict[JobState, int]:
        """Count the platform's jobs in each state; states without any may be missing.

        With ``live_only``, ended jobs are not counted, which takes long if there are many.
        """
        ...

    async def transition(
        self,
        job_id: UUID,
        to: JobState,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        version: int | None = None,
        epoch: int | None = None,
        message: str | None = None,
    ) -> Job:
        """Change the state or fields of one job and add the event ``job.state`` (or ``job.changed``
        if the state stays). A call that changes nothing writes nothing.

        Only fields that were set on ``changes`` are written (``model_fields_set``). A terminal
        state also deletes the job token and the hand-over. For a task of an array, the array job's
        row is updated in the same transaction (see ``core.jobs.arrays``).

        Raises:
            NotFound: there is no such job.
            IllegalTransition: the current state does not permit the transition to ``to``.
            Conflict: ``attempt`` or ``version`` was given and differs from that of the row.
            StaleEpoch: ``epoch`` was given and another controller is the leader.
        """
        ...

    async def apply(
        self,
        moves: Sequence[TransitionRequest],
        *,
        epoch: int,
        tokens: Mapping[UUID, str] | None = None,
        done: Collection[int] = (),
    ) -> Sequence[Job | None]:
        """Make many transitions of different jobs in one transaction.

        ``tokens`` are the hashes of new job tokens, by ID of jobs in ``moves``; the tasks of an
        array share one. No token is stored for a job that has ended. ``done`` are the IDs of outbox
        items that these transitions complete.

        Returns for each transition the job afterwards; None where ``transition`` would have raised
        ``NotFound`` or ``Conflict``. Raises ``StaleEpoch``; then nothing was changed.
        """
        ...

    async def retry(
        self,
        job_id: UUID,
        to: JobState | None = None,
        changes: JobChanges | None = None,
        *,
        attempt: int | None = None,
        epoch: int,
    ) -> Job:
        """End the current attempt in the terminal state ``to`` (None: the attempt has ended
        already) and start the next one, in one transaction.

        The job becomes PENDING_SUBMIT with attempt + 1 and a new outbox item; the fields of the old
        attempt are cleared. If a user has requested the cancellation of the job, it ends and is not
        retried. Raises the same errors as ``transition``.
        """
        ...

    async def request_cancel(
        self,
        job_id: UUID,
        now: datetime,
        message: str | None = None,
        *,
        keep: Collection[UUID] = (),
        reason: TerminationReason | None = None,
        version: int | None = None,
        unless_cancelled: UUID | None = None,
    ) -> Job:
        """Record the request to cancel a job and add a CANCEL item to the outbox; for an array, one
        for every live task except those in ``keep``.

        If ``keep`` is empty, one item for the array's row cancels all tasks that were submitted
        with it; a task that was retried gets its own. ``message`` names the user who cancelled the
        job; it becomes the message of each affected job whose cancellation was not requested
        before. ``reason`` becomes the termination reason of the job or of each task.

        A job in the state PENDING_SUBMIT becomes CANCELLED at once and its SUBMIT item is deleted.
        A job that has ended is returned unchanged, and so is an array if its task
        ``unless_cancelled`` was cancelled. Raises ``Conflict`` if ``version`` is given and differs
        from that of the row.
        """
        ...

    async def request_hold(self, job_id: UUID, hold: bool) -> Job:
        """Set ``hold`` in the specification of a pending job, or of an array and its pending tasks,
        and add a HOLD item to the outbox.

        Raises ``NotFound``, or ``Conflict`` if neither the job nor a task of it is pending.
        """
        ...

    async def withdraw_hold(self, job_id: UUID, hold: bool, *, epoch: int) -> None:
        """Set ``hold`` in the specification to the value in the scheduler, after the scheduler
        refused a change.
        """
        ...

    async def request_throttle(self, job_id: UUID, max_parallel: int | None) -> Job:
        """Set the maximum number of concurrent tasks in the specification of an array, and add a
        THROTTLE item to the outbox.

        Raises ``NotFound``; ``InvalidInput`` if the job is not an array; ``Conflict`` if it has ended.
        """
        ...

    async def first_namesake(self, job: Job) -> Job | None:
        """Return the oldest live job with the same owner and name that was created before ``job``;
        None if there is none.
        """
        ...

    async def limit_asked(self, job_id: UUID) -> int | None:
        """Return the longest time limit in seconds among the job's EXTEND items in the outbox; None
        if there are none.
        """
        ...

    async def request_extend(self, job_id: UUID, time_limit_s: int, *, asked: int | None) -> Job:
        """Add an EXTEND item to the outbox, with ``data = {"time_limit_s": …}``.

        ``asked`` is the result of ``limit_asked`` on which the caller based the request. Raises
        ``Conflict`` if the job has ended, or if a longer limit than ``asked`` was requested
        meanwhile.
        """
        ...

    async def lease_outbox(
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
        ...

    async def finish_outbox(self, *item_ids: int, epoch: int) -> None:
        """Mark the items as done. Raises ``StaleEpoch`` if another controller is the leader."""
        ...

    async def return_outbox(self, *item_ids: int, epoch: int, delay_s: float) -> None:
        """Return items to the outbox, so that they are due again after ``delay_s`` seconds.

        Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def hold_outbox(self, dependencies: Mapping[int, Job], *, epoch: int) -> None:
        """Return items to the outbox that must wait for another job; an item becomes due again when
        that job ends or gets another scheduler ID.

        ``dependencies`` maps an item's ID to the other job, as the caller has read it; if that job
        has changed since, the item is due at once. Raises ``StaleEpoch`` if another controller is
        the leader.
        """
        ...

    async def outbox_depth(self) -> tuple[int, float]:
        """Return the number of pending outbox items and the age of the oldest in seconds (0.0 if
        there are none), without items that wait for another job.
        """
        ...

    async def job_of_token(self, token_hash: str) -> Job | None:
        """Return the job (or array job) that has this job token; None if there is none or it has
        ended.
        """
        ...

    async def job_of_session_token(self, token_hash: str) -> Job | None:
        """Return the session whose programs have this session token; None if there is none, if the
        session has ended, or if the token was revoked.
        """
        ...

    async def put_handover(
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
        ...

    async def get_handover(self, job_id: UUID) -> str | None:
        """Return the hand-over that ``put_handover`` stored; None if there is none yet."""
        ...

    async def add_samples(self, job_id: UUID, samples: Sequence[Sample]) -> None:
        """Add samples of the job's resource usage; those that are stored already are ignored."""
        ...

    async def samples(
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
        ...

    async def put_profile(self, job_id: UUID, profile: dict[str, Any]) -> None:
        """Store the profile of the job's ranks in place of the previous one, and replace the job's
        event ``job.profile``.

        Raises ``NotFound``.
        """
        ...

    async def profile(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the latest profile, or None if there is none."""
        ...

    async def add_job_event(self, job_id: UUID, kind: str, data: dict[str, Any]) -> None:
        """Add an event to the job's history without changing the job.

        All users who may see the job may see the event. Raises ``NotFound``.
        """
        ...

    async def queue_position(self, job: Job) -> QueuePosition | None:
        """Return the job's position among the pending jobs of its partition, ordered by the
        scheduler's priority.

        None if the job is not pending, or the scheduler has not reported its partition and priority
        yet.
        """
        ...

    async def job_events(self, job_id: UUID) -> Sequence[Event]:
        """List the events of the job, oldest first."""
        ...
