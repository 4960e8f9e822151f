"""Rank groups end with the run of their session."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.errors import NotFound
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.services.controller.rank_group_cleanup import RankGroupWatch
from aitne.store.action_outbox import OutboxKind
from tests.support.jobs import make_rank_group, make_session
from tests.unit.controller.conftest import Bench
from tests.unit.controller.test_loop import living, until

RUNNING = (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING)


async def stored(b: Bench, job: Job, *states: JobState) -> Job:
    await b.store.create_job(job)
    for state in states:
        await b.store.transition_job(job.id, state)
    return job


async def follow(b: Bench, watch: RankGroupWatch) -> None:
    await watch.on_events(await b.live.catch_up())


async def end(b: Bench, session: Job) -> None:
    changes = JobChanges(reason=TerminationReason.COMPLETED, ended_at=b.clock())
    await b.store.transition_job(session.id, JobState.COMPLETED, changes)


async def test_rank_groups_are_cancelled_when_their_session_has_ended(bench: Any) -> None:
    b: Bench = await bench()
    watch = RankGroupWatch(b.store, b.live, b.clock)
    session = await stored(b, make_session(name="look"), *RUNNING)
    other = await stored(b, make_session(name="other"), *RUNNING)
    runs = await stored(b, make_rank_group(session), *RUNNING)
    waits = await stored(b, make_rank_group(session))
    stays = await stored(b, make_rank_group(other), *RUNNING)
    await follow(b, watch)
    assert (await b.job(runs.id)).cancel_requested_at is None
    await end(b, session)
    await follow(b, watch)
    for group in (runs, waits):
        job = await b.job(group.id)
        assert job.cancel_requested_at is not None
        assert job.message == "Released, because session look has ended."
    assert await b.state(waits.id) is JobState.CANCELLED
    assert (await b.job(stays.id)).cancel_requested_at is None
    items = await b.store.lease_outbox_items(
        epoch=b.leader.epoch, limit=10, lease_s=1, kinds={OutboxKind.CANCEL}
    )
    assert [item.job_id for item in items] == [runs.id]


@pytest.mark.parametrize("restarted", [False, True])
async def test_rank_groups_are_cancelled_when_their_session_is_requeued(
    bench: Any, restarted: bool
) -> None:
    b: Bench = await bench()
    watch = RankGroupWatch(b.store, b.live, b.clock)
    session = await stored(b, make_session(name="look"), *RUNNING)
    stays = await stored(b, make_rank_group(await stored(b, make_session(), *RUNNING)), *RUNNING)
    runs = await stored(b, make_rank_group(session), *RUNNING)
    waits = await stored(b, make_rank_group(session))
    await follow(b, watch)
    await b.store.transition_job(session.id, JobState.QUEUED, JobChanges(restart_count=1))
    if restarted:
        await b.store.transition_job(session.id, JobState.STARTING)
    await follow(b, watch)
    for group in (runs, waits):
        job = await b.job(group.id)
        assert job.cancel_requested_at is not None
        assert job.message == "Released, because session look was requeued."
    await b.store.transition_job(session.id, JobState.RUNNING if restarted else JobState.STARTING)
    again = await stored(b, make_rank_group(session))
    await follow(b, watch)
    for group in (stays, again):
        assert (await b.job(group.id)).cancel_requested_at is None


async def test_group_is_never_submitted_for_a_session_that_was_requeued(bench: Any) -> None:
    b: Bench = await bench()
    session = await stored(b, make_session(name="look"), *RUNNING)
    group = await stored(b, make_rank_group(session))
    await b.store.transition_job(session.id, JobState.QUEUED, JobChanges(restart_count=1))
    await b.live.load()
    await b.outbox.drain()
    assert b.scheduler.requests == []
    job = await b.job(group.id)
    assert (job.state, job.message) == (
        JobState.CANCELLED,
        "Released, because session look was requeued.",
    )


async def test_new_leader_cancels_groups_of_sessions_that_ended_before(bench: Any) -> None:
    b: Bench = await bench()
    session = await stored(b, make_session(), *RUNNING)
    group = await stored(b, make_rank_group(session), *RUNNING)
    await end(b, session)
    await b.live.load()
    await RankGroupWatch(b.store, b.live, b.clock).cancel_released()
    assert (await b.job(group.id)).message == "Released, because session lab has ended."


async def test_group_that_is_stored_after_its_session_ended_is_cancelled(bench: Any) -> None:
    b: Bench = await bench()
    watch = RankGroupWatch(b.store, b.live, b.clock)
    session = await stored(b, make_session(), *RUNNING)
    await end(b, session)
    await follow(b, watch)
    group = await stored(b, make_rank_group(session))
    await follow(b, watch)
    assert await b.state(group.id) is JobState.CANCELLED


@pytest.mark.parametrize("deleted", [False, True])
async def test_group_is_never_submitted_for_a_session_that_has_ended(
    bench: Any, deleted: bool
) -> None:
    b: Bench = await bench()
    session = make_session() if deleted else await stored(b, make_session(), *RUNNING)
    group = await stored(b, make_rank_group(session))
    if deleted:
        with pytest.raises(NotFound):
            await b.job(session.id)
    else:
        await end(b, session)
    await b.outbox.drain()
    assert b.scheduler.requests == []
    job = await b.job(group.id)
    assert (job.state, job.reason) == (JobState.CANCELLED, TerminationReason.CANCELLED)
    assert "has ended" in (job.message or "")


async def test_group_of_a_running_session_is_submitted(bench: Any) -> None:
    b: Bench = await bench()
    session = await stored(b, make_session(), *RUNNING)
    group = await stored(b, make_rank_group(session))
    await b.outbox.drain()
    assert [request.job_id for request in b.scheduler.requests] == [group.id]


async def test_group_that_ended_without_work_says_so(bench: Any) -> None:
    b: Bench = await bench()
    session = await stored(b, make_session(), *RUNNING)
    group = await stored(b, make_rank_group(session))
    await b.outbox.drain()
    await b.begins(group)
    await b.agent_reports(group.id)
    await b.ends(group, 0, message="released after 15 minutes without work")
    b.scheduler.finish((await b.job(group.id)).scheduler_id or "")
    await b.poller.poll()
    job = await b.job(group.id)
    assert (job.state, job.reason) == (JobState.COMPLETED, TerminationReason.COMPLETED)
    assert job.message == "Released after 15 minutes without work."


async def test_whole_controller_ends_groups_in_the_scheduler_with_their_session(
    bench: Any,
) -> None:
    b: Bench = await bench()
    async with living(b):
        session = await stored(b, make_session(name="look"))
        await until(b, session, JobState.STARTING)
        group = await stored(b, make_rank_group(session))
        await until(b, group, JobState.STARTING)
        b.scheduler.finish((await b.job(session.id)).scheduler_id or "")
        await until(b, group, JobState.CANCELLED)
    ended = await b.job(group.id)
    assert ended.message == "Released, because session look has ended."
    assert b.scheduler.cancelled == [ended.scheduler_id]
