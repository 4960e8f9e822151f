"""The controller's life as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from aitne.adapters.node_software_folder import own_software
from aitne.adapters.runtimes.bare import BareRuntime
from aitne.core.errors import SchedulerUnavailable, StoreUnavailable
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import SubmitRequest
from aitne.services.controller import Controller
from aitne.services.jobs.job_renderer import Renderer
from tests.support.fakes import FakeScheduler
from tests.support.jobs import make_job, make_session


@asynccontextmanager
async def living(b: Any, poll_interval_s: float = 0.1) -> AsyncIterator[None]:
    """Run a complete controller with the bench's parts during the block."""
    await b.leader.release()
    controller = Controller(
        b.store,
        b.scheduler,
        b.files,
        b.hub,
        Renderer(b.settings, {"bare": BareRuntime(b.settings)}, own_software()),
        b.clock,
        holder="one",
        sessions_url="http://sessions.test",
        poll_interval_s=poll_interval_s,
    )
    life = asyncio.create_task(controller.run())
    try:
        yield
        assert not life.done()
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


async def until(b: Any, job: Job, state: JobState) -> None:
    async with asyncio.timeout(60):
        while await b.state(job.id) is not state:
            await b.store.wait_for_change(0.2)


class Speechless(FakeScheduler):
    """Answers questions, and does not say when something changes."""

    async def wait_for_change(self) -> None:
        """Raise an error: this scheduler announces no changes."""
        raise SchedulerUnavailable("there is no stream of changes.")


async def test_a_scheduler_that_cannot_say_when_something_changes_is_asked_at_intervals(
    bench: Any,
) -> None:
    b = await bench(Speechless())
    job = make_job()
    async with living(b):
        await b.store.create_job(job)
        await until(b, job, JobState.STARTING)


class PolledDuringSubmission(FakeScheduler):
    """Starts a job, and answers its submission only after a poll that has it."""

    async def submit(self, request: SubmitRequest) -> str:
        """Wait for the poll that comes with the change."""
        scheduler_id, polls = self._accept(request), self.polls
        while self.polls == polls:
            await asyncio.sleep(0.01)
        return scheduler_id


async def test_a_job_that_starts_during_its_submission_does_not_wait_for_the_next_poll(
    bench: Any,
) -> None:
    b = await bench(PolledDuringSubmission())
    job = make_job()
    async with living(b, poll_interval_s=3_600):
        await b.store.create_job(job)
        await until(b, job, JobState.STARTING)


async def test_a_session_is_connected_though_the_database_was_away_for_a_moment(
    bench: Any,
) -> None:
    b = await bench()
    job = make_session()
    transition, away = b.store.transition_job, [StoreUnavailable("it restarts.")]

    async def away_once(job_id: UUID, to: JobState, *rest: Any, **more: Any) -> Job:
        if to is JobState.READY and away:
            raise away.pop()
        moved: Job = await transition(job_id, to, *rest, **more)
        return moved

    b.store.transition_job = away_once
    async with living(b):
        await b.store.create_job(job)
        await until(b, job, JobState.STARTING)
        await b.agent_reports(job.id, "127.0.0.1:5000")
        await until(b, job, JobState.READY)
    assert not away


@pytest.mark.parametrize("pause_s", [0.02, 0.5])
async def test_cancelled_job_does_not_wait_for_the_next_poll(
    bench: Any, monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    monkeypatch.setattr("aitne.services.controller.main_loop.FOLLOW_PAUSE_S", pause_s)
    b = await bench(Speechless())
    job = make_job()
    async with living(b, poll_interval_s=3_600):
        await b.store.create_job(job)
        async with asyncio.timeout(60):
            while (await b.job(job.id)).scheduler_id is None:
                await b.store.wait_for_change(0.2)
        await b.store.request_cancel(job.id, b.clock())
        await until(b, job, JobState.CANCELLED)
