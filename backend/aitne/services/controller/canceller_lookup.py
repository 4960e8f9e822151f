"""Search for the accounts that cancelled jobs directly in the scheduler, for example with
``scancel``.

The accounting of the scheduler contains these accounts; its queue does not.
"""

from __future__ import annotations

import logging

from aitne.core.errors import SchedulerUnavailable
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import Scheduler, SchedulerJob
from aitne.services.controller.live_jobs import LiveJob, LiveJobs
from aitne.services.controller.run_identification import make_run, records_by_job
from aitne.store.jobs import JobStore

log = logging.getLogger(__name__)

News = list[tuple[LiveJob, list[SchedulerJob]]]
MOST = 500
"""Maximum number of jobs in one search; the messages of further cancelled jobs name no account."""


async def with_cancellers(
    store: JobStore, scheduler: Scheduler, live: LiveJobs, news: News
) -> News:
    """Find out which accounts cancelled jobs directly in the scheduler, for example with scancel,
    and add them to the records of these jobs.

    ``news`` are pairs of a live job and its records in the scheduler's latest answer; a copy with
    the completed records is returned. The accounts of all such jobs are read from accounting in one
    query.
    """
    jobs = _list_unexpected_cancellations(news)
    if not jobs:
        return news
    # The copies may lack a cancel request of the platform, which would explain the records.
    live.update(await store.find_jobs([job.id for job in jobs]))
    jobs = _list_unexpected_cancellations(news)[:MOST]
    if not jobs:
        return news
    try:
        records_found = await scheduler.find_records([make_run(job) for job in jobs])
    except SchedulerUnavailable as error:
        log.warning("The accounts that cancelled %d jobs are unknown: %s", len(jobs), error.message)
        return news
    by_job = records_by_job(jobs, records_found)
    return [(entry, by_job.get(entry.job.id) or records) for entry, records in news]


def _list_unexpected_cancellations(news: News) -> list[Job]:
    """List the jobs that the scheduler shows as cancelled although the platform did not cancel
    them. ``news`` are pairs of a live job and its records in the scheduler's latest answer.
    """
    return [
        entry.job
        for entry, records in news
        if entry.submitted
        and entry.job.cancel_requested_at is None
        and any(record.reason is TerminationReason.CANCELLED for record in records)
    ]
