"""Jobs that have ended while the scheduler still reports them as running."""

from __future__ import annotations

from typing import Any

from aitne.core.jobs.states import JobState
from tests.support.fakes import ControllerDown
from tests.support.jobs import make_job


async def _running(b: Any) -> Any:
    """Start a job whose scheduler reports nothing new from now on; return it."""
    job = make_job()
    await b.store.create_job(job, ())
    await b.outbox.drain()
    await b.poller.poll()
    await b.agent_reports(job.id)
    await b.begins(job)
    await b.poller.poll()
    return job


async def _polls(b: Any, times: int = 3) -> None:
    for _ in range(times):
        await b.poller.poll()


async def test_after_a_silence_the_agents_word_counts_and_the_run_is_cancelled(bench: Any) -> None:
    b = await bench(ControllerDown())
    b.scheduler.down = False
    job = await _running(b)
    b.clock.advance(60)
    await _polls(b)
    await b.ends(job, 0)
    b.clock.advance(60)
    await _polls(b)
    assert await b.state(job.id) is JobState.RUNNING, "a scheduler in doubt of nothing is believed"
    b.scheduler.down = True
    await _polls(b)
    b.scheduler.down = False
    await _polls(b)
    assert await b.state(job.id) is JobState.RUNNING, "it may still be told of the end"
    b.clock.advance(21)
    await _polls(b, 1)
    assert await b.state(job.id) is JobState.COMPLETED
    await _polls(b, 2)
    assert b.scheduler.cancelled == ["1"]


async def test_job_forgotten_by_scheduler_puts_other_records_in_doubt(bench: Any) -> None:
    b = await bench()
    job, forgotten = await _running(b), await _running(b)
    b.clock.advance(60)
    await _polls(b)
    await b.ends(job, 0)
    await b.ends(forgotten, 0)
    del b.scheduler.records["2"]
    b.clock.advance(20)
    await _polls(b)
    assert await b.state(forgotten.id) is JobState.COMPLETED
    assert await b.state(job.id) is JobState.RUNNING
    b.clock.advance(21)
    await _polls(b, 1)
    assert await b.state(job.id) is JobState.COMPLETED


async def test_running_interrupted_or_just_ended_job_keeps_running(bench: Any) -> None:
    b = await bench()
    runs, interrupted, young = [await _running(b) for _ in range(3)]
    await b.ends(interrupted, 0, interrupted=True)
    b.clock.advance(21)
    await b.ends(young, 0)
    await _polls(b)
    states = {await b.state(job.id) for job in (runs, interrupted, young)}
    assert states == {JobState.RUNNING}


async def test_an_outcome_of_an_earlier_start_says_nothing(bench: Any) -> None:
    b = await bench()
    job = await _running(b)
    await b.ends(job, 1)
    (key,) = b.files.fences
    b.files.fences[key] = b.files.fences[key].model_copy(update={"restart_count": 1})
    b.clock.advance(21)
    await _polls(b)
    assert await b.state(job.id) is JobState.RUNNING
