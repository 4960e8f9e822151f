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
    OutboxItem,
    OutboxKind,
    Page,
    QueuePlace,
    TransitionRequest,
)


class JobStore(Protocol):
    """Jobs, their events and samples, and their actions in the outbox."""

    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> CreatedJob:
        """Store the job (an array with the rows of its tasks), its outbox row and event in one
        transaction.

        Of a lineage of sessions only one lives at a time, however many ask to continue it at once.

        Raises:
            Conflict: another session already continues the same session.
            IdempotencyConflict: the key was used with another request. While the first request is
                still in flight the second waits for it, then gets the same job.
        """
        ...

    async def find_replay(self, idempotency: Idempotency) -> Job | None:
        """Return the job that this key created before, so that a repeated request is not checked
        again.

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

        ``own_row``: take it out of its task group, so that more can be stored about it."""
        ...

    async def split_tasks(self, array_job_id: UUID, indices: Collection[int]) -> Sequence[Job]:
        """Give tasks of the array's task group rows of their own, which differ in nothing else.

        Returns the rows of all of ``indices`` that the array has, and the task group as it is
        afterwards if it still has tasks."""
        ...

    async def live_jobs(self) -> Sequence[Job]:
        """Return every row that is not in a terminal state, oldest first; task groups in one
        piece."""
        ...

    async def count_live(self, owner: str) -> int:
        """Count the owner's jobs that have not ended, array jobs and their tasks alike."""
        ...

    async def count_by_state(self) -> dict[JobState, int]:
        """Count the jobs in each state; states without any may be missing."""
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
        """Move one job and write the event ``job.state`` (or ``job.changed`` if the state stays).

        Only fields that were set on ``changes`` are written (``model_fields_set``). Entering a
        terminal state also removes the job's token and its hand-over. A transition that
        changes nothing writes nothing. If the job is an array task, its array job's row is
        brought up to date in the same transaction (see ``core.jobs.arrays``).

        Raises:
            NotFound: no such job.
            IllegalTransition: no such edge.
            Conflict: ``attempt`` or ``version`` was given and is not the row's.
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
        """Make many transitions of different jobs, in one transaction.

        ``tokens`` are what ``set_job_token`` takes; ``done`` are the outbox items that these
        transitions finish.

        The answer has the job of each move as it is afterwards; None where ``transition`` would
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
        """End this attempt in the terminal state ``to`` (None: it has ended) and start the next.

        One transaction, so that no crash comes between the end and the promised attempt: the job
        becomes PENDING_SUBMIT with attempt + 1 and a new outbox row, and the fields of the old
        attempt are cleared. A job that a user asked to cancel meanwhile ends and is not retried.
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

    async def limit_asked(self, job_id: UUID) -> int | None:
        """Return the longest ``time_limit_s`` of the job's pending EXTENDs, in seconds, or None if
        there are none."""
        ...

    async def request_extend(self, job_id: UUID, time_limit_s: int, *, asked: int | None) -> Job:
        """Queue an EXTEND in the outbox with ``data = {"time_limit_s": …}``.

        Raises ``Conflict`` if the job has ended, or if more than ``asked`` was asked for
        meanwhile."""
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
        """Take up to ``limit`` items of these kinds that are due and not worked on. Owners take
        turns; of one owner the item comes first that became due first. With ``begun`` only those
        that were taken before.

        A lease holds for ``lease_s`` and only under the leader that took it: the next leader need
        not wait for the leases of one that died. Raises ``StaleEpoch``.
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
        """Return items to the outbox until the job that each depends on ends or has another
        scheduler id.

        ``dependencies`` has that job, as it was read, by the item's id. The transaction that
        changes the job makes the items due; if it has changed since it was read, they are due at
        once. Raises ``StaleEpoch``.
        """
        ...

    async def outbox_depth(self) -> tuple[int, float]:
        """Return the number of waiting items, and the age of the oldest in seconds (0.0 if none);
        without those that are held for another job."""
        ...

    async def set_job_token(self, job_id: UUID, token_hash: str, *, epoch: int) -> None:
        """Store the hash of the job's own token, with which its agent reports; array tasks share
        it.

        Raises:
            NotFound: there is no such job.
            Conflict: the job has ended.
        """
        ...

    async def job_of_token(self, token_hash: str) -> Job | None:
        """Return the (array) job that the token belongs to, if it lives; else None."""
        ...

    async def put_handover(self, job_id: UUID, encrypted: str) -> None:
        """Store what the Hub leaves for the waiting agent (environment and arguments).

        Raises:
            NotFound: there is no such job.
            Conflict: the job has ended.
        """
        ...

    async def get_handover(self, job_id: UUID) -> str | None:
        """Return what ``put_handover`` stored; None while there is nothing."""
        ...

    async def add_samples(self, job_id: UUID, samples: Sequence[Sample]) -> None:
        """Append measurements; drop those that are stored already."""
        ...

    async def samples(
        self, job_id: UUID, *, since: datetime | None = None, limit: int = 2_000
    ) -> Sequence[Sample]:
        """List the job's samples, oldest first, thinned evenly to ``limit``."""
        ...

    async def put_profile(self, job_id: UUID, profile: dict[str, Any]) -> None:
        """Store the profile of the job's ranks in place of the previous one; appends the event
        ``job.profile``, of which each job has one at most. Raises ``NotFound``."""
        ...

    async def profile(self, job_id: UUID) -> dict[str, Any] | None:
        """Return the latest profile, or None if there is none."""
        ...

    async def add_job_event(self, job_id: UUID, kind: str, data: dict[str, Any]) -> None:
        """Append to the job's history an event that changes none of its fields.

        Users who may see the job may see it. Raises ``NotFound``.
        """
        ...

    async def queue_place(self, job: Job) -> QueuePlace | None:
        """Return the job's position among those that wait for its partition, by the scheduler's
        priority.

        None: it does not wait, or the scheduler has not reported its partition and priority yet.
        """
        ...

    async def job_events(self, job_id: UUID) -> Sequence[Event]:
        """List the job's own history, oldest first: the stages are drawn from it."""
        ...
