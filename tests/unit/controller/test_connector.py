"""Sessions and the Hub: adopted once, given up with a reason, forgotten at the end."""

from __future__ import annotations

import asyncio
from typing import Any

from aitne.core.errors import Conflict, HubUnavailable, SchedulerUnavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import JobChanges
from aitne.core.ports.scheduler import Run
from aitne.core.sessions.entry_points import server_name
from tests.support.jobs import make_job, make_session


async def _running_session(b: Any) -> Any:
    job = make_session()
    await b.store.create_job(job)
    await b.outbox.drain()
    await b.poller.poll()
    await b.agent_reports(job.id, "127.0.0.1:5000")
    return job


async def _until(b: Any, job: Any, state: JobState) -> Any:
    async with asyncio.timeout(60):
        while (await b.job(job.id)).state is not state:
            await b.store.wait_for_change(0.2)
    return await b.job(job.id)


async def test_a_running_session_becomes_ready_with_its_url(bench: Any) -> None:
    b = await bench()
    job = await _running_session(b)
    await b.live.catch_up()
    b.connector.resume()
    ready = await _until(b, job, JobState.READY)
    assert b.hub.started == [(job.owner, server_name(job.id), job.id)]
    assert ready.url == f"http://sessions.test/user/ada/{server_name(job.id)}/lab"


async def test_a_hub_that_is_away_for_a_moment_is_waited_for(bench: Any) -> None:
    b = await bench()
    b.hub.failures = [HubUnavailable("it restarts."), HubUnavailable("it restarts.")]
    job = await _running_session(b)
    await b.live.catch_up()
    b.connector.resume()
    await _until(b, job, JobState.READY)


async def test_a_hub_that_keeps_refusing_ends_the_session_with_the_reason(bench: Any) -> None:
    b = await bench()
    b.hub.failures = [Conflict("the port did not answer.")] * 3
    job = await _running_session(b)
    await b.live.catch_up()
    b.connector.resume()
    ended = await _until(b, job, JobState.FAILED)
    assert ended.reason is TerminationReason.START_FAILED
    assert "the port did not answer" in (ended.message or "")
    assert b.scheduler.cancelled == ["1"]


async def test_a_session_that_is_given_up_is_ended_however_late_that_can_be_done(
    bench: Any,
) -> None:
    b = await bench()
    b.hub.failures = [Conflict("the port did not answer.")] * 3
    job = await _running_session(b)
    cancel, silent = b.scheduler.cancel, [SchedulerUnavailable("it restarts.")]

    async def answers_later(run: Run) -> None:
        if silent:
            raise silent.pop()
        await cancel(run)

    b.scheduler.cancel = answers_later
    await b.live.catch_up()
    b.connector.resume()
    await _until(b, job, JobState.FAILED)
    assert b.scheduler.cancelled == ["1"]


async def test_batch_jobs_never_reach_the_hub(bench: Any) -> None:
    b = await bench()
    job = make_job()
    await b.store.create_job(job)
    await b.outbox.drain()
    await b.agent_reports(job.id, "127.0.0.1:5000")
    await b.live.catch_up()
    b.connector.resume()
    for event in await b.store.list_events_after(0):
        await b.connector.on_event(event)
    assert b.hub.started == []


async def test_an_ended_session_is_forgotten(bench: Any) -> None:
    b = await bench()
    job = await _running_session(b)
    await b.live.catch_up()
    b.connector.resume()
    await _until(b, job, JobState.READY)
    seen = await b.store.get_last_event_id()
    b.scheduler.finish("1")
    await b.poller.poll()
    for event in await b.store.list_events_after(seen):
        await b.connector.on_event(event)
    async with asyncio.timeout(60):
        while not b.hub.removed:
            await asyncio.sleep(0)
    assert b.hub.removed == [(job.owner, server_name(job.id))]


async def test_a_session_that_began_again_is_not_led_to_its_old_address(bench: Any) -> None:
    b = await bench()
    job = await _running_session(b)
    await b.store.transition_job(job.id, JobState.RUNNING, JobChanges(restart_count=1))
    await b.live.catch_up()
    b.connector.resume()
    await _until(b, job, JobState.READY)
    assert b.hub.removed == [(job.owner, server_name(job.id))]
