"""Sessions without activity, and jobs that leave their GPUs idle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.notification import NotificationKind
from aitne.core.models.usage_sample import Sample
from aitne.core.notifications.settings import IdleSettings
from aitne.services.controller.idle_gpu_reports import GpuWatch, mean_utilization
from aitne.services.controller.idle_sessions import IdleWatch, compute_warning_leads
from aitne.store.action_outbox import OutboxKind
from tests.support.jobs import make_job, make_session
from tests.unit.controller.conftest import Bench
from tests.unit.controller.test_telling import kinds, person, read

HOUR = 3_600


async def ready(b: Bench, **spec: Any) -> Job:
    job = make_session(spec={"inactivity_duration_s": HOUR, "type": "session", **spec})
    await b.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING):
        await b.store.transition_job(job.id, state, JobChanges(scheduler_id="1"))
    return await b.store.transition_job(job.id, JobState.READY)


async def agent_says(b: Bench, job: Job, idle_s: float) -> None:
    now = b.clock()
    await b.store.record_activity(job.id, active_at=now - timedelta(seconds=idle_s), seen_at=now)


async def look(b: Bench, watch: IdleWatch | None = None) -> None:
    await b.live.catch_up()
    await (watch or IdleWatch(b.store, b.live, b.leader, b.clock)).check_sessions()


async def idle_for(b: Bench, job: Job, minutes: int, already_s: float = 0) -> None:
    """Let minutes pass while the agent reports no activity."""
    for minute in range(1, minutes + 1):
        b.clock.advance(60)
        await agent_says(b, job, already_s + 60 * minute)
        await look(b)


async def warnings(b: Bench, job: Job) -> list[int]:
    events = await b.store.list_job_events(job.id)
    return [round(e.data["left_s"] / 60) for e in events if e.kind == "session.idle"]


def test_when_warnings_come() -> None:
    assert compute_warning_leads(HOUR) == (timedelta(minutes=15), timedelta(minutes=2))
    assert compute_warning_leads(20) == (timedelta(seconds=5), timedelta(seconds=2))


class TestSessions:
    async def test_warned_twice_then_ended_for_that_reason(self, bench: Any) -> None:
        b: Bench = await bench()
        await person(b)
        job = await ready(b)
        await agent_says(b, job, 0)
        await idle_for(b, job, 44)
        assert await warnings(b, job) == []
        await idle_for(b, job, 1, 44 * 60)
        assert await warnings(b, job) == [15]
        assert (await b.job(job.id)).idle_ends_at == b.clock() + timedelta(minutes=15)
        await idle_for(b, job, 13, 45 * 60)
        assert await warnings(b, job) == [15, 2]
        await read(b)
        assert (await kinds(b))[-1] is NotificationKind.SESSION_IDLE
        await idle_for(b, job, 2, 58 * 60)
        ending = await b.job(job.id)
        assert ending.cancel_requested_at is not None
        assert ending.message == "Ended after 1 h without activity."
        (item,) = await b.store.lease_outbox_items(
            epoch=b.leader.epoch, limit=9, lease_s=1, kinds={OutboxKind.CANCEL}
        )
        assert item.job_id == job.id
        await b.store.transition_job(
            job.id, JobState.CANCELLED, JobChanges(reason=TerminationReason.IDLE)
        )
        await read(b)
        found = (await b.store.list_notifications("ada")).items[0]
        assert found.kind is NotificationKind.SESSION_ENDED
        assert found.text == "Ended after 1 h without activity."

    async def test_work_after_a_warning_begins_it_anew(self, bench: Any) -> None:
        b: Bench = await bench()
        job = await ready(b)
        await agent_says(b, job, 0)
        await idle_for(b, job, 50)
        assert (await b.job(job.id)).idle_ends_at is not None
        b.clock.advance(60)
        await agent_says(b, job, 0)
        await look(b)
        assert (await b.job(job.id)).idle_ends_at is None
        await idle_for(b, job, 30)
        assert (await b.job(job.id)).cancel_requested_at is None
        await idle_for(b, job, 30, 30 * 60)
        assert await warnings(b, job) == [15, 15, 2]

    async def test_an_agent_that_is_silent_ends_nothing(self, bench: Any) -> None:
        b: Bench = await bench()
        job = await ready(b)
        await agent_says(b, job, 0)
        await idle_for(b, job, 45)
        for _ in range(30):
            b.clock.advance(60)
            await look(b)
        now = await b.job(job.id)
        assert (now.idle_ends_at, now.cancel_requested_at) == (None, None)

    async def test_session_is_warned_before_its_end_after_pause_of_controller(
        self, bench: Any
    ) -> None:
        b: Bench = await bench()
        job = await ready(b)
        await agent_says(b, job, 0)
        b.clock.advance(3 * HOUR)
        await agent_says(b, job, 3 * HOUR)
        await look(b)
        await look(b)
        now = await b.job(job.id)
        assert (now.cancel_requested_at, await warnings(b, job)) == (None, [15])
        assert now.idle_ends_at == b.clock() + timedelta(minutes=15)

    async def test_a_new_controller_warns_of_nothing_twice(self, bench: Any) -> None:
        b: Bench = await bench()
        job = await ready(b)
        await agent_says(b, job, 0)
        await idle_for(b, job, 46)
        for _ in range(3):
            await look(b, IdleWatch(b.store, b.live, b.leader, b.clock))
        assert await warnings(b, job) == [15]

    async def test_a_session_without_a_limit_stays(self, bench: Any) -> None:
        b: Bench = await bench()
        job = await ready(b, inactivity_duration_s=None)
        await agent_says(b, job, 0)
        await idle_for(b, job, 120)
        assert await warnings(b, job) == []
        assert (await b.job(job.id)).cancel_requested_at is None


def test_utilization_that_is_not_known_is_not_idleness() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    samples = [
        Sample(
            time=begin + timedelta(minutes=number),
            node="n1",
            cpu=1,
            memory_bytes=1,
            gpu=({"index": 0, "utilization": 0.5} if number % 2 else {"index": 0},),
        )
        for number in range(10)
    ]
    assert mean_utilization(samples, 540) == 0.5
    unknown = [sample.model_copy(update={"gpu": ({"index": 0},)}) for sample in samples]
    assert mean_utilization(unknown, 540) is None


class TestGpus:
    async def training(self, b: Bench, **resources: Any) -> Job:
        job = make_job(spec={"resources": {"gpu": {"count": 2}, **resources}})
        await b.store.create_job(job)
        for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
            await b.store.transition_job(job.id, state)
        return await b.store.transition_job(
            job.id, JobState.RUNNING, JobChanges(started_at=b.clock())
        )

    async def half_hour(self, b: Bench, job: Job, busy: float | None, watch: GpuWatch) -> None:
        for _ in range(30):
            b.clock.advance(60)
            gpus = (
                ()
                if busy is None
                else ({"index": 0, "utilization": busy}, {"index": 1, "utilization": 0.0})
            )
            sample = Sample(time=b.clock(), node="n1", cpu=1.0, memory_bytes=1, gpu=gpus)
            await b.store.add_samples(job.id, [sample])
            await b.live.catch_up()
            await watch.check_jobs()

    def watch(self, b: Bench) -> GpuWatch:
        return GpuWatch(b.store, b.live, b.leader, b.clock, IdleSettings())

    async def test_a_job_that_leaves_them_idle_is_marked_and_its_owner_told_once(
        self, bench: Any
    ) -> None:
        b: Bench = await bench()
        await person(b)
        job, watch = await self.training(b), self.watch(b)
        began = b.clock()
        await self.half_hour(b, job, 0.02, watch)
        await self.half_hour(b, job, 0.02, watch)
        since = (await b.job(job.id)).gpu_idle_since
        assert since is not None
        assert since - began < timedelta(minutes=10)
        await self.half_hour(b, job, 0.9, watch)
        assert (await b.job(job.id)).gpu_idle_since is None
        await self.half_hour(b, job, 0.0, self.watch(b))
        await self.half_hour(b, job, 0.0, watch)
        assert (await b.job(job.id)).gpu_idle_since is not None
        await read(b)
        told = [kind for kind in await kinds(b) if kind is NotificationKind.GPU_IDLE]
        assert told == [NotificationKind.GPU_IDLE]

    async def test_session_that_leaves_them_idle_is_marked_without_a_notification(
        self, bench: Any
    ) -> None:
        b: Bench = await bench()
        await person(b)
        session, watch = await ready(b, resources={"gpu": {"count": 2}}), self.watch(b)
        began = JobChanges(started_at=b.clock())
        session = await b.store.transition_job(session.id, JobState.READY, began)
        await self.half_hour(b, session, 0.02, watch)
        await self.half_hour(b, session, 0.02, watch)
        assert (await b.job(session.id)).gpu_idle_since is not None
        await read(b)
        assert NotificationKind.GPU_IDLE not in await kinds(b)

    @pytest.mark.parametrize("busy", [0.5, None])
    async def test_job_with_busy_or_unmeasured_gpu_is_not_marked_idle(
        self, bench: Any, busy: float | None
    ) -> None:
        b: Bench = await bench()
        job, watch = await self.training(b), self.watch(b)
        await self.half_hour(b, job, busy, watch)
        await self.half_hour(b, job, busy, watch)
        assert (await b.job(job.id)).gpu_idle_since is None
