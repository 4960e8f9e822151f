"""An sbatch that does the work and then does not answer: the job is found, and not submitted again."""

from __future__ import annotations

import asyncio
import pwd
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from aitne.adapters.node_software import SoftwareFolder
from aitne.adapters.runtimes.bare import BareRuntime
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.adapters.store.sql import SqlStore
from aitne.core.dev_cluster import DevCluster
from aitne.core.errors import CommandTimeout
from aitne.core.ports.command import Command, Completed
from aitne.core.ports.files import Fence, JobPlace
from aitne.core.ports.tools import Tools
from aitne.core.settings import SlurmSettings, load_settings
from aitne.core.states import JobState
from aitne.services.controller import Controller
from aitne.services.render import Renderer
from tests.support.hub import RecordingHub
from tests.support.jobs import make_job
from tests.support.schedulers import FilesOfUsers, slurm_tools

pytestmark = [pytest.mark.timeout(240)]
JOBS = 12


class Ambiguous:
    """Every second sbatch is cut off: one after slurmctld has taken the job, the next before."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.submitted = 0
        self.cut_off = 0

    async def run(
        self,
        argv: Sequence[str],
        *,
        account: str | None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Completed:
        """As the port says."""
        submits = argv[0] == "sbatch" and self.submitted < JOBS
        before = submits and self.submitted % 4 == 3
        after = submits and self.submitted % 4 == 1
        self.submitted += submits
        self.cut_off += before or after
        if before:
            raise CommandTimeout("sbatch was cut off before it had sent anything.")
        done = await self._command.run(
            argv, account=account, stdin=stdin, env=env, timeout_s=timeout_s
        )
        if after:
            raise CommandTimeout("sbatch was cut off after it had been heard.")
        return done


class AsRoot(FilesOfUsers):
    """Reads what belongs to alice."""

    async def fence(self, place: JobPlace, task: int | None) -> Fence | None:
        return await super().fence(place.model_copy(update={"account": None}), task)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """Empty."""
    made = SqlStore(load_settings(tmp_path).database_url)
    await made.start()
    yield made
    await made.close()


async def test_ambiguous(slurm_cluster: DevCluster, store: SqlStore, tmp_path: Path) -> None:
    home = Path(pwd.getpwnam("alice").pw_dir)
    folder = home / f"ambiguous-{time.monotonic_ns()}"
    folder.mkdir()
    shutil.chown(folder, "alice", "alice")
    slurm = SlurmSettings(
        conf=slurm_cluster.slurm_conf,
        operator=slurm_cluster.operator,
        command_prefix=list(slurm_cluster.command_prefix),
        software_dir=slurm_cluster.software_dir,
        python=slurm_cluster.python,
    )
    settings = load_settings(tmp_path, scheduler="slurm_cli", slurm=slurm)
    tools = slurm_tools(slurm_cluster, settings)
    command = Ambiguous(tools.command)
    scheduler = SlurmCliScheduler(settings, Tools(command, tools.files))
    await scheduler.start()
    software = SoftwareFolder(settings)
    software.write_files()
    controller = Controller(
        store,
        scheduler,
        AsRoot(),
        RecordingHub(),
        Renderer(settings, {"bare": BareRuntime(None)}, software.software()),
        lambda: datetime.now(UTC),
        holder="test",
        sessions_origin="http://sessions.test",
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
            while await store.live_jobs():
                await asyncio.sleep(0.5)
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
    states = {(await store.get_job(job.id)).state for job in jobs}
    ran = (folder / "ran").read_text().split()
    shutil.rmtree(folder)
    assert states == {JobState.COMPLETED}
    assert sorted(ran) == sorted(str(job.id) for job in jobs)
    assert command.cut_off == JOBS / 2
