"""The store's part about jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobChanges, JobFilter, Sample
from aitne.core.models.job_search import JobSort
from aitne.core.ports.store.records import (
    CreatedJob,
    Idempotency,
    NewJob,
    OutboxItem,
    OutboxKind,
    Page,
    QueuePlace,
    TransitionRequest,
)


class JobStore(Protocol):
    """Storage of jobs with their history, measurements and profiles, and of the outbox."""

    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> CreatedJob:
        """Store the job (an array job with the rows of its tasks), its outbox item and its event in
        one transaction.

        If the job continues a session, no other live job may continue the same session.

        Raises:
            Conflict: another session already continues the same session.
            IdempotencyConflict: the key was used with another request. While the first request with
                the key is in progress, this call waits for it and then returns the same job.
        """
        ...

    async def create_jobs(self, new_jobs: Sequence[NewJob]) -> Sequence[CreatedJob]:
        """Store several jobs as ``create_job`` does, all in one transaction: on any error none of
        them is stored.

        Raises as ``create_job``.
        """
        ...

    async def find_replays(self, wishes: Sequence[Idempotency]) -> Mapping[str, Job]:
        """Return the jobs that earlier requests with these idempotency keys of one user created, by
        key. So a repeated request need not be checked again.

        Raises ``IdempotencyConflict`` as ``create_job`` does.
        """
        ...

    async def get_job(self, job_id: UUID) -> Job:
        """Read a job, or a task of an array even if the task has no row of its own.

        Raises ``NotFound``, also for the ID of a task group, which is no job.
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
        """List jobs, newest first unless ``sort`` names another order.

        ``visible_to`` None: all; a user's name: that user's jobs and those of the user's projects.
        Raises ``InvalidInput`` for an invalid cursor, or one of another order.
        """
        ...

    async def count_jobs(self, where: JobFilter, *, visible_to: str | None) -> dict[JobState, int]:
        """Count the jobs that ``list_jobs`` would list, by state."""
        ...

    async def array_tasks(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the tasks of an array job, by index."""
        ...

    async def array_rows(self, array_job_id: UUID) -> Sequence[Job]:
        """Return the rows of an array job's tasks: those of single tasks by index, and the task
        group."""
        ...

    async def array_task(
        self, array_job_id: UUID, index: int, *, own_row: bool = False
    ) -> Job | None:
        """Read one task of an array job; None if the array has no such task.

        ``own_row``: first give the task a row of its own, so that more can be stored about it.
        """
        ...

    async def split_tasks(self, array_job_id: UUID, indices: Collection[int]) -> Sequence[Job]:
        """Give these tasks of the array's task group rows of their own, otherwise unchanged.

        Return the rows of all of ``indices`` that the array has, and the rest of the task group if
        it still has tasks.
        """
        ...

    async def live_jobs(self) -> Sequence[Job]:
        """Return the rows of the platform's jobs that have not ended, oldest first; a task group is
        one row. Jobs from outside are not among them.
        """
        ...

    async def count_live(self, owner: str) -> int:
        """Count the owner's jobs that have not ended, array jobs and their tasks alike, without
        jobs from outside.
        """
        ...

    async def count_by_state(self) -> dict[JobState, int]:
        """Count the platform's jobs in each state; states without any may be missing."""
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
        """Change the state or fields of one job and write the event ``job.state`` (or
        ``job.changed`` if the state stays). A call that changes nothing writes nothing.

        Only fields that were set on ``changes`` are written (``model_fields_set``). A terminal
        state also deletes the job token and the hand-over. For a task of an array, the array job's
        row is updated in the same transaction (see ``core.jobs.arrays``).

        Raises:
            NotFound: no such job.
            IllegalTransition: the state ``to`` cannot follow the present state.
            Conflict: ``attempt`` or ``version`` was given and differs from the row's.
            StaleEpoch: ``epoch`` was given and another controller leads.
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

        ``tokens`` are hashes of job tokens to store (as ``set_job_token`` does), by job ID;
        ``done`` are the ids of outbox items that these transitions complete.

        Returns for each transition the job as it is afterwards; None where ``transition`` would
        have raised ``NotFound`` or ``Conflict``. Raises ``StaleEpoch``; in that case nothing was
        changed.
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
        """End the present attempt in the terminal state ``to`` (None: the attempt has ended
        already) and start the next one, in one transaction.

        The job becomes PENDING_SUBMIT with attempt + 1 and a new outbox item; the fields of the old
        attempt are cleared. If a user has asked to cancel the job, it ends and is not retried.
        Raises as ``transition``.
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
        """Note the request and queue a CANCEL in the outbox; of an array, for every live task that
        is not among those to ``keep``. Where there are none to keep, one CANCEL of the array's row
        stands for the tasks that were submitted with it; a task that was retried has its own.

        ``message`` names the user who ended it; it becomes the message of each job that is
        concerned, unless its end was requested before. ``reason`` is then why a single job ended,
        or each of the tasks.

        A job still PENDING_SUBMIT becomes CANCELLED at once and its SUBMIT is dropped. A terminal
        job is returned as it is, and so is an array if the task ``unless_cancelled`` was cancelled.
        Raises ``Conflict`` if ``version`` is given and the row has another.
        """
        ...

    async def request_hold(self, job_id: UUID, hold: bool) -> Job:
        """Change ``hold`` in the specification of a job that waits, or of an array and its waiting
        tasks, and add a HOLD item to the outbox.

        Raises ``NotFound``, and ``Conflict`` if nothing of it waits.
        """
        ...

    async def withdraw_hold(self, job_id: UUID, hold: bool, *, epoch: int) -> None:
        """Set ``hold`` in the specification as the scheduler has it, after it refused a change."""
        ...

    async def request_throttle(self, job_id: UUID, max_parallel: int | None) -> Job:
        """Change how many tasks of an array may run at once in its specification, and add a
        THROTTLE item to the outbox.

        Raises ``NotFound``; ``InvalidInput`` if the job is no array; ``Conflict`` if it has ended.
        """
        ...

    async def first_namesake(self, job: Job) -> Job | None:
        """Return the first live job of the same owner and name that was created before ``job``."""
        ...

    async def limit_asked(self, job_id: UUID) -> int | None:
        """Return the longest time limit, in seconds, among the job's EXTEND items in the outbox;
        None if there are none.
        """
        ...

    async def request_extend(self, job_id: UUID, time_limit_s: int, *, asked: int | None) -> Job:
        """Add an EXTEND item to the outbox, with ``data = {"time_limit_s": …}``.

        ``asked`` is the result of ``limit_asked`` that the caller has seen. Raises ``Conflict`` if
        the job has ended, or if a longer limit than ``asked`` was requested meanwhile.
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
        them. The users who own the jobs take turns; among the items of one user the one that has
        been due longest comes first. ``begun``: only items that were reserved before.

        A reservation ends after ``lease_s`` seconds, or as soon as another controller leads. Raises
        ``StaleEpoch``.
        """
        ...

    async def finish_outbox(self, *item_ids: int, epoch: int) -> None:
        """Mark the items as done. Raises ``StaleEpoch``."""
        ...

    async def return_outbox(self, *item_ids: int, epoch: int, delay_s: float) -> None:
        """Return items to the outbox for another try after ``delay_s`` seconds. Raises
        ``StaleEpoch``."""
        ...

    async def hold_outbox(self, dependencies: Mapping[int, Job], *, epoch: int) -> None:
        """Return items to the outbox until the job on which each depends ends or gets another
        scheduler ID.

        ``dependencies`` maps an item's id to that job as the caller has read it. The transaction
        that changes the job makes the item due; if the job has changed already, the item is due at
        once. Raises ``StaleEpoch``.
        """
        ...

    async def outbox_depth(self) -> tuple[int, float]:
        """Return the number of waiting outbox items and the age of the oldest in seconds (0.0 if
        none), not counting items that wait for another job.
        """
        ...

    async def set_job_token(self, job_id: UUID, token_hash: str, *, epoch: int) -> None:
        """Store the hash of the job token with which the agent reports; the tasks of an array share
        one token.

        Raises:
            NotFound: there is no such job.
            Conflict: the job has ended.
        """
        ...

    async def job_of_token(self, token_hash: str) -> Job | None:
        """Return the job (or array job) that has this job token; None if there is none or it has
        ended.
        """
        ...

    async def put_handover(self, job_id: UUID, encrypted: str) -> None:
        """Store the hand-over: the environment and arguments that JupyterHub passes to the waiting
        agent of a session, encrypted.

        Raises:
            NotFound: there is no such job.
            Conflict: the job has ended.
        """
        ...

    async def get_handover(self, job_id: UUID) -> str | None:
        """Return the hand-over that ``put_handover`` stored; None if there is none yet."""
        ...

    async def add_samples(self, job_id: UUID, samples: Sequence[Sample]) -> None:
        """Append measurements of the job; those that are stored already are ignored."""
        ...

    async def samples(
        self, job_id: UUID, *, since: datetime | None = None, limit: int = 2_000
    ) -> Sequence[Sample]:
        """List the job's measurements after ``since``, oldest first; if there are more than
        ``limit``, an evenly spaced selection.
        """
        ...

    async def put_profile(self, job_id: UUID, profile: dict[str, Any]) -> None:
        """Store the profile of the job's ranks in place of the previous one, with the event
        ``job.profile`` (one per job). Raises ``NotFound``.
        """
        ...

    async def profile(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the latest profile, or None if there is none."""
        ...

    async def add_job_event(self, job_id: UUID, kind: str, data: dict[str, Any]) -> None:
        """Append an event to the job's history without changing the job.

        All users who may see the job may see the event. Raises ``NotFound``.
        """
        ...

    async def queue_place(self, job: Job) -> QueuePlace | None:
        """Return the job's position among the jobs that wait for its partition, by the scheduler's
        priority.

        None: the job does not wait, or the scheduler has not reported its partition and priority
        yet.
        """
        ...

    async def job_events(self, job_id: UUID) -> Sequence[Event]:
        """List the job's history, oldest first; the portal draws the stages of the job from it."""
        ...
