"""An sbatch or slurmrestd that does the work and then does not answer: the job is found, and not
submitted again."""

from __future__ import annotations

import asyncio
import pwd
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aitne.adapters.node_software_folder import SoftwareFolder
from aitne.adapters.runtimes.bare import BareRuntime
from aitne.adapters.schedulers import slurm
from aitne.adapters.schedulers._slurm.rest import rest_session
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import CommandTimeout
from aitne.core.jobs.states import JobState
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.ports.command import Command, Completed
from aitne.core.ports.job_files import Fence, JobLocation
from aitne.core.ports.scheduler import Scheduler
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from aitne.services.controller import Controller
from aitne.services.jobs.job_renderer import Renderer
from aitne.store import Store
from tests.support import realtime
from tests.support.hub import RecordingHub
from tests.support.jobs import make_job
from tests.support.rest_proxy import Cut, proxy
from tests.support.schedulers import FilesOfUsers, slurm_tools

pytestmark = [
    pytest.mark.timeout(240),
    realtime.PLATFORM,
]
JOBS = 12


class Ambiguous:
    """Every second sbatch is cut off: one after slurmctld has taken the job, the next before."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.alone = command.alone
        self.submitted = 0
        self.cut_off = 0

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        submits = argv[0] == "sbatch" and self.submitted < JOBS
        before = submits and self.submitted % 4 == 3
        after = submits and self.submitted % 4 == 1
        self.submitted += submits
        self.cut_off += before or after
        if before:
            raise CommandTimeout("sbatch was cut off before it had sent anything.")
        done = await self._command.run(argv, **options)
        if after:
            raise CommandTimeout("sbatch was cut off after it had been heard.")
        return done


class AsRoot(FilesOfUsers):
    """Reads what belongs to alice."""

    async def read_fence(self, place: JobLocation, task: int | None) -> Fence | None:
        return await super().read_fence(place.model_copy(update={"account": None}), task)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store with an empty database."""
    made = Store(load_settings(tmp_path).database_url)
    await made.start()
    yield made
    await made.close()


class Cluster:
    """The settings and tools of a cluster, for both Slurm adapters."""

    def __init__(self, cluster: DevCluster, data_dir: Path, scheduler: str, **more: Any) -> None:
        of_slurm = SlurmSettings(
            conf=cluster.slurm_conf,
            operator=cluster.operator,
            command_prefix=list(cluster.command_prefix),
            software_dir=cluster.software_dir,
            python=cluster.python,
            **more,
        )
        self.settings = load_settings(data_dir, scheduler=scheduler, slurm=of_slurm)
        self.tools = slurm_tools(cluster, self.settings)


async def run_once_each(scheduler: Scheduler, settings: Settings, store: Store) -> None:
    """Let a controller submit jobs to it; each must run exactly once."""
    folder = Path(pwd.getpwnam("alice").pw_dir) / f"ambiguous-{time.monotonic_ns()}"
    folder.mkdir()
    shutil.chown(folder, "alice", "alice")
    software = SoftwareFolder(settings)
    software.write_files()
    controller = Controller(
        store,
        scheduler,
        AsRoot(),
        RecordingHub(),
        Renderer(settings, {"bare": BareRuntime(settings)}, software.software()),
        lambda: datetime.now(UTC),
        holder="test",
        sessions_url="http://sessions.test",
        poll_interval_s=1,
    )
    jobs = []
    for _ in range(JOBS):
        job_id = uuid4()
        jobs.append(
            make_job(
                id=job_id,
                owner="alice",
                account="alice",
                folder=str(folder / str(job_id)),
                project="ml",
                spec={"commands": (f"echo $AITNE_JOB_ID >> {folder}/ran",)},
                created_at=datetime.now(UTC),
            )
        )
        await store.create_job(jobs[-1])
    life = asyncio.create_task(controller.run())
    try:
        async with asyncio.timeout(180):
            while await store.list_live_jobs():
                await asyncio.sleep(0.5)
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
    states = {(await store.get_job(job.id)).state for job in jobs}
    ran = (folder / "ran").read_text().split()
    shutil.rmtree(folder)
    assert states == {JobState.COMPLETED}
    assert sorted(ran) == sorted(str(job.id) for job in jobs)


@pytest.mark.long
async def test_sbatch(slurm_cluster: DevCluster, store: Store, tmp_path: Path) -> None:
    it = Cluster(slurm_cluster, tmp_path, "slurm_cli")
    command = Ambiguous(it.tools.command)
    scheduler = SlurmCliScheduler(it.settings, Tools(command, it.tools.files))
    await scheduler.start()
    await run_once_each(scheduler, it.settings, store)
    assert command.cut_off == JOBS / 2


@pytest.mark.long
async def test_slurmrestd(
    slurm_cluster: DevCluster,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It is asked again at once, and what it was sent cannot turn up after all.
    monkeypatch.setattr(rest_session, "AGAIN_S", 0.0)
    monkeypatch.setattr(slurm, "LIFETIME_S", 1)
    cuts: list[Cut] = []

    def cut(number: int) -> Cut | None:
        if number >= JOBS or number % 2 == 0:
            return None
        cuts.append(Cut.AFTER if number % 4 == 1 else Cut.BEFORE)
        return cuts[-1]

    async with proxy(slurm_cluster, cut) as url:
        it = Cluster(slurm_cluster, tmp_path, "slurm", rest_url=url, jwt_key=slurm_cluster.jwt_key)
        scheduler = slurm.SlurmScheduler(it.settings, it.tools)
        assert not await scheduler.start(), "slurmrestd is in use"
        try:
            await run_once_each(scheduler, it.settings, store)
        finally:
            await scheduler.close()
    assert sorted(each.name for each in cuts) == ["AFTER"] * 3 + ["BEFORE"] * 3
