"""Search for submissions with an uncertain outcome: each is found in the scheduler, or is known
never to have arrived there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from aitne.core.errors import NotAllowed, Unavailable
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.core.platform.metric_names import RECONCILE
from aitne.core.ports.files import CLOSED, JobFiles
from aitne.core.ports.scheduler import Scheduler, SchedulerJob
from aitne.core.ports.store import OutboxItem
from aitne.services.controller.answer import OPEN, RETRY_S, SubmissionOutcome, accepted
from aitne.services.controller.counts import ControllerCounters
from aitne.services.controller.runs import best, records_by_job, run_of
from aitne.services.jobs.render import Renderer

log = logging.getLogger(__name__)


class SubmissionSearch:
    """Component that searches the scheduler for submissions with an uncertain outcome.

    A submission that is found counts as accepted. It counts as lost only when it can no longer
    appear.
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

    def forget(self, job: Job) -> None:
        """Forget the earlier searches for the job's current attempt."""
        self._searched.pop((job.id, job.attempt), None)

    async def find(self, jobs: Sequence[Job]) -> dict[UUID, SchedulerJob | None]:
        """Search for the current attempt of each job and return the scheduler's records by job ID;
        None: no record was found.

        Raises:
            SchedulerUnavailable: the scheduler does not answer.
        """
        answer = await self._scheduler.find([run_of(job) for job in jobs])
        return {job_id: best(records) for job_id, records in records_by_job(jobs, answer).items()}

    async def judge(
        self, item: OutboxItem, job: Job, record: SchedulerJob | None
    ) -> SubmissionOutcome:
        """Decide what to do about a submission with an uncertain outcome.

        ``record`` is the scheduler's record of the job, as returned by ``find``. If there is a
        record, the submission was accepted. If it is None, the record is searched for again later,
        or the job is submitted again.
        """
        if record is not None:
            scheduler_id = record.scheduler_id
            if job.is_array:
                scheduler_id = scheduler_id.partition("_")[0]
            return self._adopted(item, job, scheduler_id)
        again = SubmissionOutcome(item, job, job.state, JobChanges(), delay_s=RETRY_S)
        # Counted from this leader's first search: the previous leader may have submitted late.
        first = self._searched.setdefault((job.id, job.attempt), self._clock())
        if self._clock() < first + timedelta(seconds=self._scheduler.settle_s):
            return again
        if job.state not in OPEN:
            return again
        # Only now an empty search means that it will never appear, or has already ended.
        if not job.is_array:
            place = self._renderer.place(job)
            try:
                await self._files.create(place, {})  # it may not exist yet
                # A cancelled job is not searched for again: if it appears nevertheless, it must
                # not begin.
                cancelled = job.cancel_requested_at is not None
                look = self._files.close_fence if cancelled else self._files.fence
                fence = await look(place, job.array_task_id)
            except (Unavailable, NotAllowed) as error:
                log.warning("Job %s waits for its folder: %s", job.id, error.message)
                return again
            if fence is not None and fence.owner != CLOSED:
                return self._adopted(item, job, fence.owner)
        return self._never_arrived(item, job)

    def _adopted(self, item: OutboxItem, job: Job, scheduler_id: str) -> SubmissionOutcome:
        self._counts.add(RECONCILE, "adopted")
        log.info("Job %s was found in the scheduler as %s.", job.id, scheduler_id)
        self.forget(job)
        return accepted(item, job, scheduler_id)

    def _never_arrived(self, item: OutboxItem, job: Job) -> SubmissionOutcome:
        self.forget(job)
        self._counts.add(RECONCILE, "never_arrived")
        changes = JobChanges(submitted_at=None)
        return SubmissionOutcome(item, job, JobState.PENDING_SUBMIT, changes, OPEN, delay_s=0.0)
