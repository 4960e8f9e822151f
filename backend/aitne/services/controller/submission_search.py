"""Search for submissions with an uncertain outcome: each is found in the scheduler, or is known
never to have arrived there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import NotAllowed, Unavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.core.platform.metric_names import RECONCILE
from aitne.core.ports.job_files import CLOSED, JobFiles
from aitne.core.ports.scheduler import Scheduler, SchedulerJob
from aitne.core.units import parse_array
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.run_identification import choose_record, make_run, records_by_job
from aitne.services.controller.submission_outcome import (
    OPEN,
    RETRY_S,
    SubmissionOutcome,
    make_accepted_outcome,
)
from aitne.services.jobs.job_renderer import Renderer
from aitne.store.action_outbox import OutboxItem

log = logging.getLogger(__name__)

MOST_UNCLEAR = 5
"""Maximum number of submissions of one attempt whose answer is unclear, if none of them arrived."""


class SubmissionSearch:
    """Component that searches the scheduler for submissions with an uncertain outcome.

    A submission that is found counts as accepted. It counts as lost only when it can no longer
    appear, and is then repeated. One that the user has cancelled meanwhile
    ends at once: its fence is closed, so that it never begins, even if it appears later.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        files: JobFiles,
        renderer: Renderer,
        clock: Callable[[], datetime],
        counts: ControllerCounters,
    ) -> None:
        self._scheduler = scheduler
        self._files = files
        self._renderer = renderer
        self._clock = clock
        self._counts = counts
        self._searched: dict[tuple[UUID, int], datetime] = {}
        """Time of this leader's first unsuccessful search for each uncertain submission, by job ID
        and attempt.
        """
        self._unclear: dict[tuple[UUID, int], int] = {}
        """Number of submissions with an unclear answer, by job ID and attempt."""

    def forget(self, job: Job) -> None:
        """Forget the earlier searches for the job's current attempt."""
        self._searched.pop((job.id, job.attempt), None)
        self._unclear.pop((job.id, job.attempt), None)

    def note_unclear(self, job: Job) -> None:
        """Note that a submission of the job's current attempt was answered, but not clearly. After
        ``MOST_UNCLEAR`` of them it is not submitted again.
        """
        key = (job.id, job.attempt)
        self._unclear[key] = self._unclear.get(key, 0) + 1

    @staticmethod
    def is_decided_by_fence(job: Job) -> bool:
        """Return whether ``decide_outcome`` needs no record of the job: it is cancelled, and closing its fence
        is enough, so that the cancellation need not wait for the scheduler.
        """
        return job.cancel_requested_at is not None and job.state in OPEN

    async def find(self, jobs: Sequence[Job]) -> dict[UUID, SchedulerJob | None]:
        """Search for the current attempt of each job and return the scheduler's records by job ID;
        None: no record was found.

        Raises:
            SchedulerUnavailable: the scheduler does not answer.
        """
        answer = await self._scheduler.find_records([make_run(job) for job in jobs])
        return {
            job_id: choose_record(records)
            for job_id, records in records_by_job(jobs, answer).items()
        }

    async def decide_outcome(
        self, item: OutboxItem, job: Job, record: SchedulerJob | None
    ) -> SubmissionOutcome:
        """Decide what to do about a submission with an uncertain outcome.

        ``record`` is the scheduler's record of the job, as returned by ``find_records``. If there is a
        record, the submission was accepted. If it is None, the record is searched for again later,
        or the job is submitted again.
        """
        if record is not None:
            scheduler_id = record.scheduler_id
            if job.is_array:
                scheduler_id = scheduler_id.partition("_")[0]
            return self._make_adopted_outcome(item, job, scheduler_id)
        again = SubmissionOutcome(item, job, job.state, JobChanges(), delay_s=RETRY_S)
        # Counted from this leader's first search: the previous leader may have submitted late.
        first = self._searched.setdefault((job.id, job.attempt), self._clock())
        cancelled = self.is_decided_by_fence(job)
        settled = self._clock() >= first + timedelta(seconds=self._scheduler.settle_s)
        if job.state not in OPEN or not (cancelled or settled):
            return again
        # Only now an empty search means that it will never appear, or has already ended.
        over = cancelled or self._unclear.get((job.id, job.attempt), 0) >= MOST_UNCLEAR
        try:
            owner = await self._find_fence_owner(job, close=over)
        except (Unavailable, NotAllowed) as error:
            log.warning("Job %s waits for its folder: %s", job.id, error.message)
            return again
        if owner is not None:
            return self._make_adopted_outcome(item, job, owner)
        if cancelled:
            changes = JobChanges(
                reason=job.reason or TerminationReason.CANCELLED,
                message=job.message,
                ended_at=self._clock(),
            )
            return self._make_ended_outcome(item, job, JobState.CANCELLED, changes)
        if over:
            said = job.message or "there was no answer."
            changes = JobChanges(
                reason=TerminationReason.REJECTED,
                message=f"The scheduler did not say whether it takes the job, {MOST_UNCLEAR} times, and "
                f"does not have it. The last time: {said}",
                ended_at=self._clock(),
            )
            return self._make_ended_outcome(item, job, JobState.FAILED, changes)
        return self._make_never_arrived_outcome(item, job)

    async def _find_fence_owner(self, job: Job, *, close: bool) -> str | None:
        """Return the scheduler ID of the run that has taken the job's fence; None if none has. With
        ``close`` no run can take it afterwards: a job that is not searched for again must not begin
        if it appears nevertheless.

        Raises:
            Unavailable: the job folder cannot be read or written.
        """
        if job.is_array and not close:
            return None
        place = self._renderer.get_location(job)
        await self._files.create_attempt_folder(place, {})  # it may not exist yet
        indices = parse_array(job.spec.array or "").indices if job.is_array else [job.array_task_id]
        for index in indices:
            look = self._files.close_fence if close else self._files.read_fence
            fence = await look(place, index)
            if fence is not None and fence.owner != CLOSED:
                return fence.owner.partition("_")[0] if job.is_array else fence.owner
        return None

    def _make_adopted_outcome(
        self, item: OutboxItem, job: Job, scheduler_id: str
    ) -> SubmissionOutcome:
        self._counts.add(RECONCILE, "adopted")
        log.info("Job %s was found in the scheduler as %s.", job.id, scheduler_id)
        self.forget(job)
        return make_accepted_outcome(item, job, scheduler_id)

    def _make_ended_outcome(
        self, item: OutboxItem, job: Job, state: JobState, changes: JobChanges
    ) -> SubmissionOutcome:
        self.forget(job)
        self._counts.add(RECONCILE, "never_arrived")
        return SubmissionOutcome(item, job, state, changes, OPEN)

    def _make_never_arrived_outcome(self, item: OutboxItem, job: Job) -> SubmissionOutcome:
        self._searched.pop((job.id, job.attempt), None)
        self._counts.add(RECONCILE, "never_arrived")
        changes = JobChanges(submitted_at=None)
        return SubmissionOutcome(item, job, JobState.PENDING_SUBMIT, changes, OPEN, delay_s=0.0)
