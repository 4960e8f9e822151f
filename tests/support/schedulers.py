"""The schedulers that can run on this machine, each behind the same small bench."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from aitne.adapters.command.as_user import AsUserCommand
from aitne.adapters.job_files import OwnFiles, create_attempt_folder
from aitne.adapters.schedulers._slurm import job_comment
from aitne.adapters.schedulers.local import LocalScheduler
from aitne.adapters.schedulers.pyslurm import PyslurmScheduler
from aitne.adapters.schedulers.slurm import SlurmScheduler
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.adapters.unix_account_mapping import permitted_user, unix_user
from aitne.bootstrap.adapters import make_scheduler
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.jobs.job_folder_layout import log_file_name, make_attempt_dir
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Node
from aitne.core.models.resources import Resources
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import Run, Scheduler, SchedulerJob, SubmitRequest
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import LocalSettings, Settings
from aitne.local_system.settings_loader import load_settings
from aitne.services.controller.run_identification import indices_of, task_record
from aitne_devcluster.plan import ReleaseName
from tests.support import accounts, memory_scheduler
from tests.support.accounts import accounts_bench
from tests.support.broker import BrokerBench

MEMORY = 4 << 30
POLL_S = 0.1
"""The interval at which a scheduler without notifications is polled."""
Factory = Callable[[Path], Scheduler]
Clusters = Callable[[ReleaseName], DevCluster]


@dataclass(frozen=True)
class Stand:
    """A scheduler's cluster with its capacity, which tests may use up."""

    jobs: Path
    """The folder that contains the jobs' folders."""
    nodes: tuple[str, ...]
    cpus: int
    memory_bytes: int
    gpus: int
    """The GPUs of each node; ``cpus`` and ``memory_bytes`` are also those of one node."""
    gpu_type: str
    project: str
    account: str | None
    tracks: bool
    """The scheduler ends processes that a script leaves in a session of their own.

    A Slurm without control groups, as on development clusters, does not.
    """
    other_account: str | None = None
    """Another account than ``account``."""
    slurm: DevCluster | None = None
    patience_s: float = 10.0

    @property
    def all_resources(self) -> dict[str, int]:
        """The resources that leave nothing for anybody else."""
        return {"nodes": len(self.nodes), "cpu": self.cpus}

    def name_of(self, request: SubmitRequest) -> str:
        """Return the name of a job as its script finds it in SLURM_JOB_NAME."""
        if self.slurm is None:
            return request.name.replace("\0", "")
        return job_comment.make_job_name(request.job_id, request.attempt)


def local(data_dir: Path) -> Scheduler:
    """Return the local scheduler with two pretended nodes of 2 CPUs, 4 GiB and 2 GPUs each."""
    settings = load_settings(
        data_dir, local=LocalSettings(nodes=2, cpus=2, memory=MEMORY, gpus="a100:2")
    )
    return LocalScheduler(settings, grace_s=1.0)


def local_stand(data_dir: Path) -> Stand:
    """Return the cluster of the local scheduler."""
    return Stand(
        jobs=data_dir / "jobs",
        nodes=("node01", "node02"),
        cpus=2,
        memory_bytes=MEMORY,
        gpus=2,
        gpu_type="a100",
        project="engines",
        account=None,
        tracks=True,
    )


class FilesOfUsers(OwnFiles):
    """Job folders that belong to the jobs' accounts, created by root without the broker."""

    async def create_attempt_folder(self, place: JobLocation, files: Mapping[str, bytes]) -> None:
        """Make and write them, then give them away."""
        await asyncio.to_thread(create_attempt_folder, place, files)
        user = unix_user(place.account or "root")
        for path in [Path(place.folder), *Path(place.folder).rglob("*")]:
            os.chown(path, user.uid, user.gid)


def slurm_tools(cluster: DevCluster, settings: Settings) -> Tools:
    """Return the tools that the broker gives an adapter in a process of root."""
    command = AsUserCommand(
        lambda name: permitted_user(name, settings.accounts),
        unix_user(cluster.operator),
        cluster.command_prefix,
    )
    return Tools(command, FilesOfUsers())


@contextmanager
def slurm(
    make: Callable[[Settings, Tools], Scheduler],
    release: ReleaseName,
    data_dir: Path,
    clusters: Clusters,
    **more: Any,
) -> Iterator[tuple[Factory, Stand]]:
    """Yield a scheduler factory for a development cluster, and its stand, as alice.

    The cluster has four nodes with 8 CPUs and 4 GPUs each.
    """
    cluster = clusters(release)
    settings = load_settings(
        data_dir,
        slurm=SlurmSettings(
            conf=cluster.slurm_conf,
            operator=cluster.operator,
            command_prefix=list(cluster.command_prefix),
            **more,
        ),
    )
    alice = cluster.users[0]
    jobs = Path(pwd.getpwnam(alice.name).pw_dir) / f"aitne-tests-{uuid4().hex[:8]}"
    jobs.mkdir(mode=0o755)
    try:
        yield (
            lambda _: make(settings, slurm_tools(cluster, settings)),
            Stand(
                jobs=jobs,
                nodes=cluster.nodes,
                cpus=8,
                memory_bytes=16_000 << 20,
                gpus=4,
                gpu_type="h200",
                project=alice.account,
                account=alice.name,
                other_account=cluster.users[1].name,
                tracks=False,
                slurm=cluster,
                patience_s=40.0,
            ),
        )
    finally:
        shutil.rmtree(jobs, ignore_errors=True)


@contextmanager
def slurm_rest(
    release: ReleaseName, data_dir: Path, clusters: Clusters
) -> Iterator[tuple[Factory, Stand]]:
    """Yield a scheduler factory that uses slurmrestd, and its stand."""
    cluster = clusters(release)
    rest = {"rest_url": cluster.rest_url, "jwt_key": cluster.jwt_key}
    with slurm(SlurmScheduler, release, data_dir, clusters, **rest) as stand:
        yield stand


@contextmanager
def pyslurm(
    release: ReleaseName, data_dir: Path, clusters: Clusters
) -> Iterator[tuple[Factory, Stand]]:
    """Yield a scheduler factory that uses Slurm's commands and pyslurm, and its stand."""
    with slurm(PyslurmScheduler, release, data_dir, clusters) as stand:
        yield stand


@contextmanager
def brokered(
    release: ReleaseName, data_dir: Path, clusters: Clusters
) -> Iterator[tuple[Factory, Stand]]:
    """Yield a scheduler factory that uses Slurm through a broker of root, and its stand."""
    cluster = clusters(release)
    with slurm(SlurmCliScheduler, release, data_dir, clusters) as (_, stand):
        user = unix_user(str(stand.account))
        os.chown(stand.jobs, user.uid, user.gid)
        broker = BrokerBench({"anna": user.name}, scheduler=SlurmCliScheduler.name)
        broker.pattern = str(stand.jobs)
        broker.write_config(
            more=f'conf = "{cluster.slurm_conf}"\noperator = "{cluster.operator}"\n'
            f"command_prefix = {json.dumps(cluster.command_prefix)}\n"
        )
        try:
            broker.start("aitne.broker")
            yield lambda _: broker.scheduler(), stand
        finally:
            broker.stop()


@contextmanager
def _local(data_dir: Path, _: Clusters) -> Iterator[tuple[Factory, Stand]]:
    yield local, local_stand(data_dir)


@contextmanager
def local_accounts() -> Iterator[tuple[Factory, Stand]]:
    """Yield a factory of the local scheduler in a broker of root, and its stand, as anna."""
    with accounts_bench() as broker:
        jobs = broker.jobs["anna"]
        jobs.mkdir(mode=0o700)
        os.chown(jobs, broker.uid("anna"), broker.gid("anna"))
        yield (
            lambda _: broker.scheduler(),
            Stand(
                jobs=jobs,
                nodes=("node01", "node02"),
                cpus=accounts.CPUS,
                memory_bytes=accounts.MEMORY,
                gpus=accounts.GPUS,
                gpu_type=accounts.GPU_TYPE,
                project="engines",
                account=broker.users["anna"],
                other_account=broker.users["ben"],
                tracks=True,
            ),
        )


@contextmanager
def memory(data_dir: Path, _: Clusters) -> Iterator[tuple[Factory, Stand]]:
    """Yield a factory of a remote scheduler of another distribution, and its stand."""
    with memory_scheduler.installed(data_dir / "site-packages"):
        yield (
            lambda folder: make_scheduler(load_settings(folder, scheduler="memory")),
            Stand(
                jobs=data_dir / "jobs",
                nodes=memory_scheduler.NODES,
                cpus=memory_scheduler.CPUS,
                memory_bytes=memory_scheduler.MEMORY,
                gpus=memory_scheduler.GPUS,
                gpu_type=memory_scheduler.GPU_TYPE,
                project="engines",
                account=None,
                tracks=False,
            ),
        )


BROKERED = "slurm_cli@broker"
ACCOUNTS = "local@broker"
SLURM = {
    "slurm@system": partial(slurm_rest, "system"),
    "slurm@trixie": partial(slurm_rest, "trixie"),
    "slurm_cli@system": partial(slurm, SlurmCliScheduler, "system"),
    "slurm_cli@trixie": partial(slurm, SlurmCliScheduler, "trixie"),
    BROKERED: partial(brokered, "system"),
}
if find_spec("pyslurm") is not None:
    # It has no wheel, and fits only Slurm 26.05.
    SLURM["pyslurm@system"] = partial(pyslurm, "system")
SCHEDULERS = {
    "local": _local,
    ACCOUNTS: lambda *_: local_accounts(),
    "memory": memory,
    **SLURM,
}


@pytest.fixture(scope="session")
def shared_broker(
    tmp_path_factory: pytest.TempPathFactory, slurm_clusters: Clusters
) -> Iterator[tuple[Factory, Stand]]:
    """One broker for all tests, as its start takes longer than most of them."""
    with brokered("system", tmp_path_factory.mktemp("broker"), slurm_clusters) as shared:
        yield shared


@pytest.fixture(scope="session")
def shared_accounts() -> Iterator[tuple[Factory, Stand]]:
    """One broker with the local scheduler for all tests, as its start takes long."""
    with local_accounts() as shared:
        yield shared


def scheduler_of(
    request: pytest.FixtureRequest, data_dir: Path, clusters: Clusters
) -> AbstractContextManager[tuple[Factory, Stand]]:
    """Return the scheduler that the fixture's parameter names."""
    shared = {BROKERED: "shared_broker", ACCOUNTS: "shared_accounts"}
    if request.param in shared:
        return nullcontext(request.getfixturevalue(shared[request.param]))
    return SCHEDULERS[request.param](data_dir, clusters)


class Bench:
    """A started scheduler and what tests do with it."""

    def __init__(self, factory: Factory, data_dir: Path, stand: Stand | None = None) -> None:
        self._factory = factory
        self.data_dir = data_dir
        self.stand = stand or local_stand(data_dir)
        self.scheduler = factory(data_dir)
        self._submitted: dict[str, SubmitRequest] = {}

    async def restart(self) -> None:
        """Drop the scheduler and make a new one, as a restart of the platform does."""
        await self.scheduler.close()
        self.scheduler = self._factory(self.data_dir)
        await self.scheduler.start()

    def request(self, script: str, **changes: Any) -> SubmitRequest:
        """Return a small job with this script; `changes` replace its fields."""
        job_id = changes.pop("job_id", None) or uuid4()
        wants = {"nodes": 1, "cpu": 1, "memory_bytes": 1 << 28} | changes.pop("resources", {})
        facts: dict[str, Any] = {
            "job_id": job_id,
            "attempt": 1,
            "owner": "ada",
            "account": self.stand.account,
            "project": self.stand.project,
            "name": "test",
            "script": f"#!/bin/bash\n{script}\n",
            "job_dir": str(make_attempt_dir(self.stand.jobs, job_id, changes.get("attempt", 1))),
            "resources": Resources(**wants),
            "time_limit_s": 60,
        }
        return SubmitRequest(**(facts | changes))

    async def submit(self, script: str, **changes: Any) -> tuple[str, SubmitRequest]:
        """Submit a script; return the job's id and the request."""
        request = self.request(script, **changes)
        scheduler_id = await self.scheduler.submit(request)
        self.remember(scheduler_id, request)
        return scheduler_id, request

    def remember(self, scheduler_id: str, request: SubmitRequest) -> None:
        """Add a job that was submitted by other means to those of this bench."""
        self._submitted[scheduler_id] = request

    def run(self, scheduler_id: str) -> Run:
        """Return the run of a job of this bench, or of one of its tasks."""
        request = self._submitted[scheduler_id.partition("_")[0]]
        return Run(
            job_id=request.job_id,
            attempt=request.attempt,
            account=request.account,
            scheduler_id=scheduler_id,
        )

    async def cancel(self, scheduler_id: str) -> None:
        """End what was submitted here."""
        await self.scheduler.cancel(self.run(scheduler_id))

    async def extend(self, scheduler_id: str, time_limit_s: int) -> None:
        """Give what was submitted here another time limit."""
        await self.scheduler.extend(self.run(scheduler_id), time_limit_s)

    async def find(self, job_id: UUID, attempt: int = 1) -> Sequence[SchedulerJob]:
        """Return all records of one attempt."""
        run = Run(job_id=job_id, attempt=attempt, account=self.stand.account)
        return await self.scheduler.find_records([run])

    async def nodes(self) -> Sequence[Node]:
        """Return the nodes with their current state."""
        return (await self.scheduler.read_cluster()).nodes

    async def nodes_until(self, ok: Callable[[Sequence[Node]], bool]) -> Sequence[Node]:
        """Wait until ``ok`` accepts the nodes; the broker caches them for half a second."""
        async with asyncio.timeout(self.stand.patience_s):
            while not ok(nodes := await self.nodes()):
                await change(self.scheduler)
        return nodes

    async def rows(self, scheduler_id: str) -> list[SchedulerJob]:
        """Return the polled records of a job and its tasks, in the order of the tasks."""
        rows = [
            row if index is None else task_record(row, index)
            for row in await self.scheduler.poll()
            if row.scheduler_id.partition("_")[0] == scheduler_id
            for index in (sorted(indices_of(row)) if row.array_task_ids else [row.array_task_id])
        ]
        return sorted(rows, key=lambda row: row.array_task_id or 0)

    async def until(
        self,
        scheduler_id: str,
        ok: Callable[[list[SchedulerJob]], bool],
        timeout_s: float | None = None,
    ) -> list[SchedulerJob]:
        """Poll at every change until ``ok``."""
        async with asyncio.timeout(timeout_s or self.stand.patience_s):
            while not ok(rows := await self.rows(scheduler_id)):
                await change(self.scheduler)
        return rows

    async def wait_ended(self, scheduler_id: str, timeout_s: float | None = None) -> SchedulerJob:
        """Wait until a job and its tasks have ended; return the first record."""
        rows = await self.until(
            scheduler_id, lambda rows: all(row.state.is_terminal for row in rows), timeout_s
        )
        return rows[0]

    async def running(self, scheduler_id: str) -> SchedulerJob:
        """Wait until a job runs; return its record."""
        return (
            await self.until(
                scheduler_id, lambda rows: all(row.state is JobState.RUNNING for row in rows)
            )
        )[0]

    def log(self, request: SubmitRequest, task: int | None = None) -> str:
        """Return the log of a job or task; empty if there is none."""
        path = Path(request.job_dir) / log_file_name(task)
        return path.read_text() if path.exists() else ""

    async def log_says(self, request: SubmitRequest, text: str, task: int | None = None) -> str:
        """Wait until the log contains ``text``; return the log."""
        async with asyncio.timeout(self.stand.patience_s):
            while text not in (log := self.log(request, task)):
                await asyncio.sleep(0.01)
        return log


async def change(scheduler: Scheduler) -> None:
    """Wait until something may have changed."""
    try:
        async with asyncio.timeout(POLL_S):
            await scheduler.wait_for_change()
    except TimeoutError:
        return


@asynccontextmanager
async def opened(
    factory: Factory, data_dir: Path, stand: Stand | None = None
) -> AsyncIterator[Bench]:
    """Start a scheduler during the block; its jobs are cancelled in the end."""
    bench = Bench(factory, data_dir, stand)
    await bench.scheduler.start()
    yield bench
    for row in await bench.scheduler.poll():
        if not row.state.is_terminal:
            await bench.scheduler.cancel(
                Run(
                    job_id=row.job_id,
                    attempt=row.attempt,
                    account=row.account,
                    scheduler_id=row.scheduler_id,
                )
            )
    async with asyncio.timeout(60):
        while not all(row.state.is_terminal for row in await bench.scheduler.poll()):
            await change(bench.scheduler)
    await bench.scheduler.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)
