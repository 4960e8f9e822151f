"""Limits on their way from the store to a scheduler that holds them, and their use on the way back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aitne.adapters.schedulers.local import LocalScheduler
from aitne.core.models.limits import HeldLimit, Limits, Usage
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.core.settings import LocalSettings, Settings
from aitne.services.controller.project_limit_sync import LimitWatch
from aitne.services.projects.limit_checks import check_job_limits
from aitne.store.usage import StoredMonth
from tests.support.fakes import FakeScheduler
from tests.support.jobs import make_job


async def test_scheduler_holds_stored_limits_and_their_use_is_stored(
    bench: Any, tmp_path: Path
) -> None:
    made = await bench(FakeScheduler())
    store, clock = made.store, made.clock
    project = Project(name="vision", created_at=clock.now)
    ada = User(name="ada", default_project="vision", created_at=clock.now)
    await store.create_user(ada, None, project)
    await store.set_limits("vision", Limits(max_cpus=8, gpu_hours=10), actor="root")
    await store.set_own_limits("vision", Limits(max_cpus=4), actor="ada")
    await store.save_member("vision", "ada", limits=Limits(max_cpus=6, max_jobs=1), actor="root")
    usage = Usage(account="vision", user="ada", cpu_s=0, gpu_s=1_800, jobs=1)
    month = f"{clock.now:%Y-%m}"
    await store.save_month_usage(month, StoredMonth(clock.now, "platform", (usage,)))
    settings = Settings(data_dir=tmp_path / "local", local=LocalSettings(cpus=8))
    scheduler = LocalScheduler(settings)
    await scheduler.start()
    watch = LimitWatch(store, scheduler, None, made.leader, clock)
    held = await watch.limits()
    assert held.entries == (
        HeldLimit(project="vision", limits=Limits(max_cpus=4, gpu_hours=10), gpu_s=1_800),
        # Not above the project's own limit, which has been lowered.
        HeldLimit(project="vision", user="ada", limits=Limits(max_cpus=4, max_jobs=1)),
    )
    assert held.used_until == clock.now
    seen = await store.list_events_after(0)
    watching = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(10):
            while await store.find_limit_usage() is None:
                await store.wait_for_change(0.1)
            look, _ = await store.find_limit_usage()
            spec = make_job(project="vision").spec
            wide = spec.model_copy(
                update={"resources": spec.resources.model_copy(update={"cpu": 5})}
            )
            assert check_job_limits(wide, look, "ada").problems[0].allowed == "at most 4"
            assert check_job_limits(spec, look, "ada").problems == ()
            await store.set_own_limits("vision", Limits(), actor="ada")
            for event in await store.list_events_after(seen[-1].id):
                watch.on_event(event)
            while look.find_association("vision").tres["cpu"].limit != 8:
                await store.wait_for_change(0.1)
                look, _ = await store.find_limit_usage()
    finally:
        watching.cancel()
        await scheduler.close()
    assert look.find_association("vision").tres_minutes["gres/gpu"].used == 30
