"""A submission that turned up after it was given up and made again: two runs of one attempt."""

from __future__ import annotations

from typing import Any

from aitne.core.jobs.states import JobState, TerminationReason
from tests.support.fakes import NeverStarts
from tests.support.jobs import make_job


async def _submitted(b: Any) -> Any:
    job = make_job()
    await b.store.create_job(job, ())
    await b.outbox.drain()
    return job


async def test_of_two_runs_of_an_attempt_the_one_that_has_begun_counts(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b)
    await b.poller.poll()
    record = b.scheduler.records["1"]
    late = {"scheduler_id": "0", "state": JobState.QUEUED, "nodes": (), "started_at": None}
    b.scheduler.records = {"0": record.model_copy(update=late), "1": record}
    await b.poller.poll()
    assert ((await b.job(job.id)).state, (await b.job(job.id)).scheduler_id) == (
        JobState.STARTING,
        "1",
    )
    b.scheduler.finish("1", JobState.TIMED_OUT, TerminationReason.TIMED_OUT, None)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.TIMED_OUT


async def test_a_run_that_waits_counts_before_one_that_was_ended_unbegun(bench: Any) -> None:
    b = await bench(NeverStarts())
    job = await _submitted(b)
    record = b.scheduler.records["1"]
    late = record.model_copy(update={"scheduler_id": "2"})
    b.scheduler.finish("1", JobState.CANCELLED, TerminationReason.CANCELLED, None)
    b.scheduler.records["2"] = late
    await b.poller.poll()
    assert await b.state(job.id) is JobState.QUEUED
