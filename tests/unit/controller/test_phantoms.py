"""Runs that the scheduler holds though their job has ended, as after a crash of slurmctld."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from sqlalchemy import event

from aitne.core.errors import SchedulerUnavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import RetryPolicy
from aitne.core.ports.scheduler import Run
from tests.support.fakes import FakeScheduler
from tests.support.jobs import make_array, make_job


async def _ended(b: Any, **fields: Any) -> Any:
    """Complete a job; return it and its record while it ran."""
    job = make_job(**fields)
    await b.store.create_job(job, ())
    await b.outbox.drain()
    number = str(len(b.scheduler.records))
    running = b.scheduler.records[number]
    await b.poller.poll()
    b.scheduler.finish(number)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.COMPLETED
    return running


async def test_a_job_that_has_ended_is_cancelled_when_two_answers_say_it_runs(bench: Any) -> None:
    b = await bench()
    running = await _ended(b)
    b.scheduler.records["1"] = running
    await b.poller.poll()
    assert b.scheduler.cancelled == [], "one answer may be a moment behind"
    await b.poller.poll()
    assert b.scheduler.cancelled == ["1"]
    b.scheduler.records["1"] = running
    await b.poller.poll()
    assert b.scheduler.cancelled == ["1"], "it is on its way"
    assert await b.state(running.job_id) is JobState.COMPLETED


async def test_a_record_that_was_a_moment_behind_is_left_alone(bench: Any) -> None:
    b = await bench()
    running = await _ended(b)
    ended = b.scheduler.records["1"]
    for record in (running, ended) * 3:
        b.scheduler.records["1"] = record
        await b.poller.poll()
    assert b.scheduler.cancelled == []


async def test_an_older_attempt_is_cancelled_and_the_present_one_goes_on(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=2, on=frozenset({TerminationReason.NODE_FAILED}))
    job = make_job(spec={"retry": policy})
    await b.store.create_job(job, ())
    await b.outbox.drain()
    older = b.scheduler.records["1"]
    await b.begins(job)
    b.scheduler.finish("1", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, None)
    await b.poller.poll()
    b.clock.advance(3_600)
    await b.outbox.drain()
    b.scheduler.records["1"] = older
    for _ in range(3):
        await b.poller.poll()
    assert b.scheduler.cancelled == ["1"]
    assert ((await b.job(job.id)).attempt, await b.state(job.id)) == (2, JobState.STARTING)


async def test_of_an_array_only_the_tasks_that_have_ended(bench: Any) -> None:
    b = await bench()
    array, tasks = make_array("0-2")
    await b.store.create_job(array, tasks)
    await b.outbox.drain()
    running = b.scheduler.records["1_1"]
    b.scheduler.finish("1_1")
    await b.poller.poll()
    b.scheduler.records["1_1"] = running
    for _ in range(3):
        await b.poller.poll()
    assert b.scheduler.cancelled == ["1_1"]


async def test_tasks_that_have_ended_are_cancelled_alone_in_a_record_of_several(bench: Any) -> None:
    b = await bench()
    array, tasks = make_array("0-3")
    await b.store.create_job(array, tasks)
    await b.outbox.drain()
    await b.poller.poll()
    for number in (1, 3):
        b.scheduler.finish(f"1_{number}")
    await b.poller.poll()
    waiting = b.scheduler.records["1_0"]
    for number in range(4):
        del b.scheduler.records[f"1_{number}"]
    own = {"scheduler_id": "1", "array_task_id": None, "array_task_ids": "0-3"}
    b.scheduler.records["1"] = waiting.model_copy(update=own)
    await b.poller.poll()
    assert b.scheduler.cancelled == []
    await b.poller.poll()
    assert b.scheduler.cancelled == ["1_1", "1_3"]
    assert await b.state(tasks[0].id) is JobState.STARTING


async def test_jobs_of_other_platforms_and_accounts_are_left_alone(bench: Any) -> None:
    b = await bench()
    running = await _ended(b, account="alice")
    theirs = running.model_copy(update={"scheduler_id": "8", "job_id": uuid4()})
    forged = running.model_copy(update={"scheduler_id": "9", "account": "bob"})
    b.scheduler.records |= {"8": theirs, "9": forged}
    for _ in range(3):
        await b.poller.poll()
    assert b.scheduler.cancelled == []
    asked: list[str] = []
    engine = b.store._db._engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *said: asked.append(said[2]))
    await b.poller.poll()
    assert not [each for each in asked if "FROM jobs" in each], "whose they are is asked once"


async def test_a_scheduler_that_takes_no_cancellation_is_asked_again(bench: Any) -> None:
    class TakesNone(FakeScheduler):
        busy = False

        async def cancel(self, run: Run) -> None:
            if self.busy:
                raise SchedulerUnavailable("it is busy because the test says so.")
            await super().cancel(run)

    scheduler = TakesNone()
    b = await bench(scheduler)
    running = await _ended(b)
    scheduler.records["1"] = running
    await b.poller.poll()
    scheduler.busy = True
    assert await b.poller.poll(), "the poll goes on"
    assert scheduler.cancelled == []
    scheduler.busy = False
    await b.poller.poll()
    assert scheduler.cancelled == ["1"]
