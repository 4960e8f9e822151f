"""A controller's parts over a real SQLite store and a scheduler that fails on purpose."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aitne.adapters.node_software_folder import own_software
from aitne.adapters.runtimes.bare import BareRuntime
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.core.ports.job_files import Fence, ProgramOutcome
from aitne.core.settings import Settings
from aitne.services.controller.controller_counters import ControllerCounters
from aitne.services.controller.leader import Leader
from aitne.services.controller.live_jobs import LiveJobs
from aitne.services.controller.outbox_actions import OutboxActions
from aitne.services.controller.poller import Poller
from aitne.services.controller.restored_jobs import RestoredJobs
from aitne.services.controller.session_connector import SessionConnector
from aitne.services.controller.submitter import Submitter
from aitne.services.jobs.job_renderer import Renderer
from aitne.store import Store
from tests.support.database import migrated
from tests.support.fakes import FakeScheduler
from tests.support.files import MemoryFiles, key_of
from tests.support.hub import RecordingHub
from tests.support.runtimes import FakeRuntime

__all__ = ["migrated"]


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class Outbox:
    """Both who empty it."""

    submitter: Submitter
    actions: OutboxActions

    async def drain(self) -> None:
        await self.submitter.submit_due_items()
        await self.actions.process_due_items()


@dataclass
class Eager:
    """A poller that has heard of every change when it begins."""

    poller: Poller
    live: LiveJobs

    async def poll(self) -> bool:
        await self.live.catch_up()
        return await self.poller.poll()


@dataclass
class Bench:
    """The parts of a controller, which a test runs one pass at a time."""

    store: Store
    scheduler: FakeScheduler
    hub: RecordingHub
    leader: Leader
    clock: Clock
    files: MemoryFiles
    live: LiveJobs
    outbox: Outbox
    poller: Eager
    connector: SessionConnector
    restored: RestoredJobs
    settings: Settings
    counts: ControllerCounters
    extra: dict[str, Any] = field(default_factory=dict)

    async def job(self, job_id: UUID) -> Job:
        return await self.store.get_job(job_id)

    async def state(self, job_id: UUID) -> JobState:
        return (await self.job(job_id)).state

    async def begins(self, *jobs: Job) -> None:
        """Let the agents of the jobs take their fences, with the scheduler's ids."""
        for job in jobs:
            now = await self.store.get_job(job.id)
            owner = str(now.scheduler_id)
            self.files.fences[key_of(now)] = Fence(owner=owner, restart_count=0)

    async def ends(
        self, job: Job, exit_code: int, *, interrupted: bool = False, **said: Any
    ) -> None:
        """Let the job's agent record the outcome; ``said`` has the reason and the message."""
        now = await self.store.get_job(job.id)
        fence = self.files.fences[key_of(now)]
        self.files.outcomes[key_of(now)] = ProgramOutcome(
            owner=fence.owner,
            restart_count=fence.restart_count,
            exit_code=exit_code,
            interrupted=interrupted,
            ended_at=self.clock(),
            **said,
        )

    async def agent_reports(self, job_id: UUID, address: str | None = None) -> Job:
        changes = JobChanges(started_at=self.clock(), address=address)
        return await self.store.transition_job(job_id, JobState.RUNNING, changes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_bench(tmp_path: Path, migrated: Path, clock: Clock) -> Any:
    benches: list[Bench] = []

    async def make(
        scheduler: FakeScheduler | None = None,
        *,
        database: Path | None = None,
        files: MemoryFiles | None = None,
        **overrides: Any,
    ) -> Bench:
        data_dir = tmp_path / str(len(benches)) if benches else tmp_path
        settings = Settings(data_dir=data_dir, **overrides)
        settings.data_dir.mkdir(exist_ok=True)
        shutil.copy(database or migrated, settings.data_dir / "aitne.db")
        store = Store(settings.database_url, clock=clock)
        await store.start()
        scheduler = scheduler or FakeScheduler()
        counts = ControllerCounters()
        leader = Leader(store, "test", counts)
        await leader.acquire()
        runtimes = {"bare": BareRuntime(settings), "docker": FakeRuntime("docker")}
        renderer = Renderer(settings, runtimes, own_software())
        hub = RecordingHub()
        files, live, restored = files or MemoryFiles(), LiveJobs(store), RestoredJobs(store)
        submitter = Submitter(
            store, scheduler, files, renderer, leader, clock, counts, live, restored
        )
        bench = Bench(
            store,
            scheduler,
            hub,
            leader,
            clock,
            files,
            live,
            Outbox(
                submitter,
                OutboxActions(store, scheduler, leader, clock),
            ),
            Eager(
                Poller(
                    store,
                    scheduler,
                    files,
                    renderer.get_location,
                    leader,
                    clock,
                    counts,
                    live,
                    restored,
                    submitter.refusal,
                ),
                live,
            ),
            SessionConnector(store, hub, scheduler, leader, live, clock, "http://sessions.test"),
            restored,
            settings,
            counts,
        )
        await bench.live.load()
        await bench.restored.load()
        benches.append(bench)
        return bench

    return make, benches


@pytest.fixture
async def bench(make_bench: Any) -> AsyncIterator[Any]:
    make, benches = make_bench
    yield make
    for each in benches:
        await each.connector.close()
        await each.store.close()
