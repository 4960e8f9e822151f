"""The controller's life as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

from aitne.adapters.runtimes.bare import BareRuntime
from aitne.core.errors import SchedulerUnavailable
from aitne.core.states import JobState
from aitne.services.controller import Controller
from aitne.services.render import Renderer
from tests.support.fakes import FakeScheduler
from tests.support.jobs import make_job


class Speechless(FakeScheduler):
    """Answers questions, and does not say when something changes."""

    async def changed(self) -> None:
        """Not this one."""
        raise SchedulerUnavailable("there is no stream of changes.")


async def test_a_scheduler_that_cannot_say_when_something_changes_is_asked_at_intervals(
    bench: Any,
) -> None:
    b = await bench(Speechless())
    await b.leader.release()
    controller = Controller(
        b.store,
        b.scheduler,
        b.hub,
        Renderer(b.settings, {"bare": BareRuntime(None)}, python="python3"),
        b.clock,
        holder="one",
        sessions_origin="http://sessions.test",
        poll_interval_s=0.1,
    )
    life = asyncio.create_task(controller.run())
    job = make_job()
    await b.store.create_job(job)
    try:
        async with asyncio.timeout(10):
            while await b.state(job.id) is not JobState.STARTING:
                assert not life.done()
                await b.store.wait_for_change(0.2)
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
