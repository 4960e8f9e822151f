"""Reminders before a session ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.services.controller.session_reminders import ENDING, SessionReminderWatch
from tests.support.jobs import make_job, make_session
from tests.unit.controller.conftest import Bench


async def running(b: Bench, job: Job, lasts: timedelta) -> Job:
    await b.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
        await b.store.transition_job(job.id, state)
    changes = JobChanges(allocated_at=b.clock(), expires_at=b.clock() + lasts)
    return await b.store.transition_job(job.id, JobState.RUNNING, changes)


async def told(b: Bench, job: Job) -> list[int]:
    events = await b.store.list_job_events(job.id)
    return [event.data["left_s"] for event in events if event.kind == ENDING]


async def look(b: Bench, reminder: SessionReminderWatch) -> None:
    await b.live.catch_up()
    await reminder.send_reminders()


async def test_ten_minutes_and_two_minutes_before_the_end_once_each(bench: Any) -> None:
    b: Bench = await bench()
    job = await running(b, make_session(), timedelta(hours=1))
    reminder = SessionReminderWatch(b.store, b.live, b.clock)
    steps = []
    for _ in range(60):
        await look(b, reminder)
        steps.append(tuple(await told(b, job)))
        b.clock.advance(60)
    assert steps[49] == ()
    assert steps[50] == (600,)
    assert steps[57] == (600,)
    assert steps[58:] == [(600, 120)] * 2


async def test_a_new_controller_does_not_say_it_again_and_a_new_end_is_said(
    bench: Any,
) -> None:
    b: Bench = await bench()
    job = await running(b, make_session(), timedelta(hours=1))
    b.clock.advance(3_600 - 300)
    await look(b, SessionReminderWatch(b.store, b.live, b.clock))
    again = SessionReminderWatch(b.store, b.live, b.clock)
    await look(b, again)
    assert await told(b, job) == [600]
    later = JobChanges(expires_at=b.clock() + timedelta(seconds=1_000))
    await b.store.transition_job(job.id, JobState.RUNNING, later)
    await look(b, again)
    assert await told(b, job) == [600]
    b.clock.advance(500)
    await look(b, again)
    assert await told(b, job) == [600, 600]


async def test_short_sessions_and_batch_jobs_are_left_alone(bench: Any) -> None:
    b: Bench = await bench()
    short = await running(b, make_session(), timedelta(minutes=5))
    batch = await running(b, make_job(), timedelta(hours=1))
    reminder = SessionReminderWatch(b.store, b.live, b.clock)
    for _ in range(61):
        await look(b, reminder)
        b.clock.advance(60)
    # Five minutes are worth one word, two minutes before they are over.
    assert (await told(b, short), await told(b, batch)) == ([120], [])
