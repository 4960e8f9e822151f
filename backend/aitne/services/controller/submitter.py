"""Submission of jobs to the scheduler: attempted at least once, with effect at most once.

Each submission contains the job's UUID and attempt. An uncertain submission is resolved by
searching the scheduler for them before it is repeated, and the fence in the job folder stops
duplicates.

One transaction records for many jobs that their submission has begun; it is committed before the
scheduler is called. Several calls then run concurrently. Answers that arrive while a transaction is
being written are written together with the next one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import (
    InvalidInput,
    NotAllowed,
    NotSupported,
    SchedulerRejected,
    SchedulerUnavailable,
    StorageFull,
    SubmitUncertain,
    SubmitUnclear,
    Unavailable,
)
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges, JobType
from aitne.core.platform.metric_names import SUBMISSIONS
from aitne.core.ports.job_files import JobFiles
from aitne.core.ports.scheduler import Scheduler, SubmitRequest
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.dependency_evaluation import (
    evaluate_dependencies,
    list_dependencies,
    with_causing_jobs,
)
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.maintenance_hold_and_drain import SubmissionHold
from aitne.services.controller.rank_group_cleanup import find_release_reason
from aitne.services.controller.restored_jobs import RestoredJobs
from aitne.services.controller.submission_outcome import (
    RETRY_S,
    SubmissionOutcome,
    make_accepted_outcome,
    make_transition,
)
from aitne.services.controller.submission_search import SubmissionSearch
from aitne.services.jobs.job_renderer import Renderer
from aitne.store import Store
from aitne.store.action_outbox import OutboxItem, OutboxKind
from aitne.store.transitions import TransitionRequest

log = logging.getLogger(__name__)

BATCH = 32
"""Maximum number of submissions that begin in one transaction."""
MOST_AT_ONCE = 4
LEASE_S = 60.0
LONGEST_PAUSE_S = 15.0
HELD_S = 10.0
GATHER_S = 0.02
"""Seconds to wait for further due items after the first ones, so that they begin in one
transaction.
"""
REFUSAL_S = 60.0
"""Seconds after the last attempt during which the scheduler counts as one that accepts no jobs; the
attempts are repeated more often.
"""
IDLE_S = 0.5
"""Seconds between checks for items that become due by time alone."""
NetworkText = Callable[[], Awaitable[str | None]]
"""Function that returns the text of a ``topology.conf``, or None."""
_BEGUN = frozenset({JobState.SUBMITTING})


@dataclass(frozen=True, slots=True)
class PendingSubmission:
    """Submission that the database records as begun, and that is to be sent to the scheduler."""

    item: OutboxItem
    job: Job
    request: SubmitRequest


class Submitter:
    """Worker that submits jobs: it reads the SUBMIT items of the outbox and sends them to the
    scheduler.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        files: JobFiles,
        renderer: Renderer,
        leader: Leader,
        clock: Callable[[], datetime],
        counts: ControllerCounters,
        live: LiveJobs,
        restored: RestoredJobs,
        network: NetworkText | None = None,
    ) -> None:
        """Store the dependencies. ``network`` returns the text of the ``topology.conf`` that jobs on
        several nodes get; None: they get none.
        """
        self._network = network
        self._store = store
        self._scheduler = scheduler
        self._renderer = renderer
        self._leader = leader
        self._clock = clock
        self._counts = counts
        self._live = live
        self._restored = restored
        self._hold = SubmissionHold(store, live, leader, clock)
        self._search = SubmissionSearch(scheduler, files, renderer, clock, counts)
        self._failures = 0
        """Number of consecutive failed attempts to reach the scheduler."""
        self._refused: tuple[datetime, str] | None = None

    def refusal(self) -> str | None:
        """Return why the scheduler has not accepted the last submission, although no job is to
        blame; None if it accepts jobs, or no submission was attempted recently.
        """
        if self._refused is None or self._clock() > self._refused[0] + timedelta(seconds=REFUSAL_S):
            return None
        return self._refused[1]

    async def submit_due_items(self) -> None:
        """Submit all items that are due."""
        await self.run(until_idle=True)

    async def run(self, *, until_idle: bool = False) -> None:
        """Submit items as they become due, until cancelled; with ``until_idle``, until no item is
        due.
        """
        self._queue: asyncio.Queue[PendingSubmission] = asyncio.Queue()
        self._answers: list[SubmissionOutcome] = []
        self._answered = asyncio.Event()
        self._room = asyncio.Event()
        self._in_hand: set[int] = set()
        """IDs of items in progress; they must not begin again when their reservation in the outbox
        expires.
        """
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(self._submit_queued()) for _ in range(MOST_AT_ONCE)]
            workers.append(group.create_task(self._write_outcomes(until_idle)))
            await self._fetch_items(until_idle)
            for worker in workers:
                worker.cancel()

    async def _fetch_items(self, until_idle: bool) -> None:
        while True:
            if len(self._in_hand) < (1 if self._failures else BATCH):
                hold_reason = await self._hold.find_hold_reason()
                busy = bool(self._in_hand)
                items = await self._store.lease_outbox_items(
                    kinds={OutboxKind.SUBMIT},
                    # Submissions that began before a maintenance are completed during it.
                    begun=hold_reason is not None,
                    epoch=self._leader.epoch,
                    # One item tests whether the scheduler answers again; the others stay untouched.
                    limit=1 if self._failures else BATCH,
                    lease_s=LEASE_S,
                )
                fresh = [item for item in items if item.id not in self._in_hand]
                if fresh:
                    self._in_hand.update(item.id for item in fresh)
                    await self._begin_submissions(fresh, hold_reason)
                    if len(fresh) < BATCH and not until_idle:
                        await asyncio.sleep(GATHER_S)
                elif self._in_hand:
                    await self._wait_for_room()
                elif busy:
                    continue  # items in progress at the start of this check may have been returned
                elif until_idle:
                    return
                else:
                    await self._store.wait_for_change(IDLE_S)
            else:
                await self._wait_for_room()
            if self._failures and not self._in_hand and not until_idle:
                await asyncio.sleep(min(RETRY_S * self._failures, LONGEST_PAUSE_S))

    async def _wait_for_room(self) -> None:
        self._room.clear()
        try:
            async with asyncio.timeout(IDLE_S):
                await self._room.wait()
        except TimeoutError:
            return

    # --- beginning -------------------------------------------------------------------------------

    async def _begin_submissions(
        self, items: Sequence[OutboxItem], hold_reason: str | None
    ) -> None:
        """Record in the database which submissions begin now, and queue them for the scheduler.

        If ``hold_reason`` is not None, no new submission may begin; it is the reason for the users.
        """
        jobs = {job.id: job for job in await self._store.find_jobs([item.job_id for item in items])}
        needed = {job_id for job in jobs.values() for _, job_id in list_dependencies(job)}
        needed |= {job.session_id for job in jobs.values() if job.session_id is not None}
        found = await self._store.find_jobs(needed)
        dependencies = await with_causing_jobs({job.id: job for job in found}, self._store)
        unknown: list[tuple[OutboxItem, Job]] = []
        ready: list[PendingSubmission] = []
        tokens: dict[UUID, str] = {}
        finished: list[int] = []
        for item in items:
            job = jobs.get(item.job_id)
            if job is None or item.attempt != job.attempt or job.state.is_terminal:
                finished.append(item.id)
            elif (
                job.state is JobState.PENDING_SUBMIT and hold_reason and not job.cancel_requested_at
            ):
                changes = JobChanges(message=hold_reason)
                self._add_outcome(SubmissionOutcome(item, job, job.state, changes, delay_s=HELD_S))
            elif job.state is JobState.PENDING_SUBMIT and self._restored.must_search(job):
                # Counts as begun, so that it is searched for: before the restoration, not now.
                changes = JobChanges(submitted_at=self._restored.restored_at)
                since = frozenset({JobState.PENDING_SUBMIT})
                self._add_outcome(
                    SubmissionOutcome(item, job, JobState.SUBMITTING, changes, since, delay_s=0.0)
                )
            elif job.state is JobState.PENDING_SUBMIT:
                # A later attempt was preceded by one that has waited.
                single = job.spec.singleton and job.attempt == 1
                namesake = await self._store.find_first_namesake(job) if single else None
                several = job.spec.resources.nodes > 1
                network = await self._network() if several and self._network else None
                begun = self._prepare_submission(item, job, dependencies, namesake, network)
                if begun is not None:
                    # A retried task has a token of its own: the array's may be gone.
                    token = begun.request.files["token"]
                    tokens[job.id] = hashlib.sha256(token).hexdigest()
                    ready.append(begun)
            elif job.scheduler_id is None:
                # Also if the agent reported: without a scheduler ID a job cannot be cancelled.
                unknown.append((item, job))
            else:
                finished.append(item.id)
        now = self._clock()
        moves = []
        for submission in ready:
            changes = JobChanges(submitted_at=now, message=None)
            pending = frozenset({JobState.PENDING_SUBMIT})
            moves.append(make_transition(submission.job, JobState.SUBMITTING, changes, pending))
        begun_now = set()
        if moves or finished:
            rows = await self._store.apply_transitions(
                moves, epoch=self._leader.epoch, tokens=tokens, done=finished
            )
            self._live.update(rows)
            begun_now = {row.id for row in rows if row and row.state is JobState.SUBMITTING}
        self._release_items(finished)
        cancelled = [submission for submission in ready if submission.job.id not in begun_now]
        if cancelled:
            # Cancelled since they were read.
            item_ids = [submission.item.id for submission in cancelled]
            await self._store.finish_outbox_items(*item_ids, epoch=self._leader.epoch)
            self._release_items(item_ids)
        for submission in ready:
            if submission.job.id in begun_now:
                self._queue.put_nowait(submission)
        if unknown:
            await self._search_unknown(unknown)

    async def _search_unknown(self, unknown: Sequence[tuple[OutboxItem, Job]]) -> None:
        decided = [pair for pair in unknown if self._search.is_decided_by_fence(pair[1])]
        for item, job in decided:
            self._add_outcome(await self._search.decide_outcome(item, job, None))
        unknown = [pair for pair in unknown if pair not in decided]
        if not unknown:
            return
        try:
            records = await self._search.find([job for _, job in unknown])
        except SchedulerUnavailable as error:
            log.warning("%d submissions cannot be searched for: %s", len(unknown), error.message)
            for item, job in unknown:
                self._add_outcome(
                    SubmissionOutcome(item, job, job.state, JobChanges(), delay_s=RETRY_S)
                )
            return
        # The scheduler answers, so the other submissions need not wait.
        self._failures = 0
        for item, job in unknown:
            outcome = await self._search.decide_outcome(item, job, records[job.id])
            if outcome.to is JobState.PENDING_SUBMIT:
                self._restored.record_search(job)
            self._add_outcome(outcome)

    def _prepare_submission(
        self,
        item: OutboxItem,
        job: Job,
        jobs: Mapping[UUID, Job],
        namesake: Job | None,
        network: str | None,
    ) -> PendingSubmission | None:
        """Return the submission for the job. None: the job is not to be submitted now, and the
        outcome has been recorded.

        Args:
            jobs: by ID, the jobs that it depends on and, for a rank group, its session.
            namesake: earlier job with the same name that a ``singleton`` job waits for; None: none.
            network: text of its ``topology.conf``; None: it gets none.
        """
        if job.cancel_requested_at is not None:
            self._end_job(item, job, JobState.CANCELLED, TerminationReason.CANCELLED, job.message)
            return None
        if (released := find_release_reason(job, jobs)) is not None:
            self._end_job(item, job, JobState.CANCELLED, TerminationReason.CANCELLED, released)
            return None
        after = self._resolve_dependencies(item, job, jobs, namesake)
        if after is None:
            return None
        try:
            token = secrets.token_urlsafe(32)
            request = self._renderer.submit_request(job, after, token, network)
        except InvalidInput as error:
            self._end_job(item, job, JobState.FAILED, TerminationReason.REJECTED, error.message)
            return None
        return PendingSubmission(item, job, request)

    def _resolve_dependencies(
        self, item: OutboxItem, job: Job, jobs: Mapping[UUID, Job], namesake: Job | None
    ) -> Mapping[str, Sequence[str]] | None:
        """Return the scheduler IDs of the jobs to wait for, by kind of dependency.

        None if one of these jobs has no scheduler ID yet, if a dependency can never be satisfied,
        or if ``namesake``, an earlier job with the same name, has not ended.
        """
        dependencies = evaluate_dependencies(job, jobs)
        if dependencies.never is not None:
            reason = TerminationReason.DEPENDENCY_FAILED
            self._end_job(item, job, JobState.CANCELLED, reason, dependencies.never)
            return None
        other = dependencies.waits_for or namesake
        if other is None:
            return dependencies.ids
        verb = "end; it has the same name" if other is namesake else "complete"
        note = f"Waits for job {other.id} to {verb}."
        changes = JobChanges() if job.message == note else JobChanges(message=note)
        self._add_outcome(SubmissionOutcome(item, job, job.state, changes, dependency=other))
        return None

    # --- submitting ------------------------------------------------------------------------------

    async def _submit_queued(self) -> None:
        while True:
            begun = await self._queue.get()
            self._add_outcome(await self._submit_job(begun))

    async def _submit_job(self, begun: PendingSubmission) -> SubmissionOutcome:
        item, job = begun.item, begun.job
        if self._failures and not self._is_probe():
            # Begun together with a submission that the scheduler did not answer.
            return self._make_retry_outcome(item, job, "it does not answer.")
        try:
            scheduler_id = await self._scheduler.submit(begun.request)
        except SubmitUncertain as error:
            self._failures += 1
            self._counts.add(SUBMISSIONS, "uncertain")
            log.warning("Job %s may or may not have been submitted: %s", job.id, error.message)
            if isinstance(error, SubmitUnclear):
                self._search.note_unclear(job)
            changes = JobChanges(message=error.message)
            return SubmissionOutcome(
                item, job, JobState.UNCERTAIN, changes, _BEGUN, delay_s=RETRY_S
            )
        except (SchedulerRejected, InvalidInput, NotAllowed, NotSupported) as error:
            self._failures = 0
            self._counts.add(SUBMISSIONS, "rejected")
            self._search.forget(job)
            changes = self._make_end_changes(TerminationReason.REJECTED, error.message)
            return SubmissionOutcome(item, job, JobState.FAILED, changes)
        except StorageFull as error:
            self._counts.add(SUBMISSIONS, "unavailable")
            return self._move_to_spare_folder(item, job, error)
        except Unavailable as error:
            # One user's files that cannot be written must not delay the jobs of others.
            its_own = not isinstance(error, SchedulerUnavailable)
            self._failures += not its_own
            self._refused = self._refused if its_own else (self._clock(), error.message)
            self._counts.add(SUBMISSIONS, "unavailable")
            return self._make_retry_outcome(item, job, error.message, its_own=its_own)
        self._failures, self._refused = 0, None
        self._counts.add(SUBMISSIONS, "accepted")
        self._search.forget(job)
        return make_accepted_outcome(item, job, scheduler_id)

    def _move_to_spare_folder(
        self, item: OutboxItem, job: Job, error: StorageFull
    ) -> SubmissionOutcome:
        """Return a session whose folder is full to the outbox with another folder, so that its user
        can delete files in it; other jobs wait for space.
        """
        folder = self._renderer.spare_folder(job) if job.type is JobType.SESSION else None
        if folder is None or folder == job.folder:
            return self._make_retry_outcome(item, job, error.message, its_own=True)
        message = f"{error.message} This session has its files in {folder} instead."
        changes = JobChanges(message=message, submitted_at=None, folder=folder)
        return SubmissionOutcome(item, job, JobState.PENDING_SUBMIT, changes, _BEGUN, delay_s=0.0)

    def _is_probe(self) -> bool:
        return len(self._in_hand) <= 1

    def _make_retry_outcome(
        self, item: OutboxItem, job: Job, reason: str, *, its_own: bool = False
    ) -> SubmissionOutcome:
        message = reason if its_own else f"Waits for the scheduler: {reason}"
        changes = JobChanges(message=message, submitted_at=None)
        return SubmissionOutcome(
            item, job, JobState.PENDING_SUBMIT, changes, _BEGUN, delay_s=RETRY_S
        )

    # --- writing ---------------------------------------------------------------------------------

    def _end_job(
        self,
        item: OutboxItem,
        job: Job,
        state: JobState,
        reason: TerminationReason,
        message: str | None,
    ) -> None:
        self._add_outcome(
            SubmissionOutcome(item, job, state, self._make_end_changes(reason, message))
        )

    def _make_end_changes(self, reason: TerminationReason, message: str | None) -> JobChanges:
        return JobChanges(reason=reason, message=message, ended_at=self._clock())

    def _add_outcome(self, outcome: SubmissionOutcome) -> None:
        self._answers.append(outcome)
        self._answered.set()

    def _release_items(self, items: Sequence[int]) -> None:
        self._in_hand.difference_update(items)
        self._room.set()

    async def _write_outcomes(self, until_idle: bool) -> None:
        while True:
            await self._answered.wait()
            self._answered.clear()
            answers, self._answers = self._answers, []
            moves: list[TransitionRequest] = []
            later: dict[float, list[int]] = {}
            dependencies: dict[int, Job] = {}
            finished: list[int] = []
            for answer in answers:
                if answer.changes.model_fields_set or answer.scheduler_id is not None:
                    moves.append(
                        make_transition(
                            answer.job,
                            answer.to,
                            answer.changes,
                            answer.since,
                            answer.scheduler_id,
                        )
                    )
                if answer.dependency is not None:
                    dependencies[answer.item.id] = answer.dependency
                elif answer.delay_s is None:
                    finished.append(answer.item.id)
                else:
                    later.setdefault(answer.delay_s, []).append(answer.item.id)
            epoch = self._leader.epoch
            if moves or finished:
                self._live.update(
                    await self._store.apply_transitions(moves, epoch=epoch, done=finished)
                )
            if dependencies:
                await self._store.hold_outbox_items(dependencies, epoch=epoch)
            for delay_s, ids in later.items():
                await self._store.return_outbox_items(*ids, epoch=epoch, delay_s=delay_s)
            self._release_items([answer.item.id for answer in answers])
            if not until_idle:
                await asyncio.sleep(GATHER_S)
