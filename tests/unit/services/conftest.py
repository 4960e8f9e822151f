"""The job services over a real SQLite store, with a clock and logs that a test moves by hand."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aitne.adapters.node_software_folder import own_software
from aitne.adapters.unix_account_mapping import OwnAccount
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.cluster import Cluster, GpuCount, Node, NodeState
from aitne.core.models.image import Artifact, Image
from aitne.core.models.job import Job, JobChanges, Plan
from aitne.core.models.job_file import JobFile
from aitne.core.models.project import Project
from aitne.core.models.user import Actor, Role, User
from aitne.core.ports.scheduler import Forecast, SubmitRequest
from aitne.core.settings import LimitSettings, Settings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.jobs.admission import Admission
from aitne.services.jobs.failure_explanations import FailureService
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.jobs.jobs import JobService
from aitne.services.jobs.start_forecast import Forecaster
from aitne.services.jobs.time_limit_extensions import ExtensionService
from aitne.services.platform.encryption import Cipher
from aitne.services.projects.limit_checks import LimitCheck
from aitne.services.sessions.session_service import SessionService
from aitne.services.users.user_secrets import UserSecretService
from aitne.store import Store
from aitne_train.topology.switch_tree import TopologyTree
from aitne_train.topology.topology_parts import Topology
from tests.support.database import migrated
from tests.support.fakes import FakeScheduler
from tests.support.files import MemoryFiles
from tests.support.offers import offers
from tests.support.runtimes import FakeRuntime
from tests.support.templates import TEMPLATES

__all__ = ["migrated"]

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Clock:
    """Stands still until a test moves it."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


def make_actor(
    name: str = "ada",
    *,
    role: Role = Role.USER,
    scopes: frozenset[Scope] = frozenset(Scope),
    projects: Sequence[str] = ("vision",),
) -> Actor:
    user = User(name=name, role=role, default_project=projects[0], created_at=START)
    return Actor(user=user, scopes=scopes, projects=frozenset(projects))


ADA = make_actor()
BOB = make_actor("bob")
EVE = make_actor("eve", projects=("speech",))
ROOT = make_actor("root", role=Role.ADMIN, projects=("admin",))
EVERYONE = (ADA, BOB, EVE, ROOT)


def make_node(name: str = "node01", *, cpu_used: int = 0, gpus: int = 4) -> Node:
    return Node(
        name=name,
        state=NodeState.MIXED,
        cpu_total=8,
        cpu_used=cpu_used,
        memory_total_bytes=32 << 30,
        memory_used_bytes=0,
        gpus=(GpuCount(type="a100", total=gpus, used=0),),
        seen_at=START,
    )


PYTORCH = Image(
    name="pytorch",
    version="1.0",
    artifacts=(Artifact(runtime="apptainer", digest="sha256:" + "a" * 64, size_bytes=1),),
    created_at=START,
    created_by="root",
)


class Oracle(FakeScheduler):
    """Says of every job what the test wants, before it is submitted."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: str | None = None
        self.starts_at: datetime | None = None

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Return a forecast if the test has set a start, or refuse the job."""
        if self.refuses is not None:
            raise SchedulerRejected(self.refuses)
        return None if self.starts_at is None else Forecast(starts_at=self.starts_at)


@dataclass
class FixedTopology:
    """The topology that a test sets."""

    tree: TopologyTree | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    async def get_reported_python_versions(self, owner: str) -> Mapping[str, str]:
        return self.versions

    async def get_topology(self) -> Topology:
        return Topology(self.tree)


@dataclass
class Bench:
    """The services and what a test turns by hand."""

    store: Store
    renderer: Renderer
    jobs: JobService
    sessions: SessionService
    extensions: ExtensionService
    failures: FailureService
    files: MemoryFiles
    clock: Clock
    epoch: int
    scheduler: Oracle
    topology: FixedTopology

    async def nodes(self, *nodes: Node) -> None:
        await self.store.save_cluster(Cluster(nodes=nodes), epoch=self.epoch)

    async def create(self, actor: Actor = ADA, **fields: object) -> Job:
        values = {"commands": ["true"], **fields}
        if "template" in values or values.get("type") == "session":
            values.pop("commands") if "commands" not in fields else None
        return (await self.jobs.create(actor, JobFile.model_validate(values))).job

    async def walk(self, job: Job, *states: JobState, **changes: object) -> Job:
        """Move the job from state to state; the last step also sets ``changes``."""
        for state in states[:-1]:
            await self.store.transition_job(job.id, state)
        last = JobChanges.model_validate(changes)
        return await self.store.transition_job(job.id, states[-1], last)

    async def plan(self, fields: dict[str, object], actor: Actor = ADA) -> Plan:
        """Return the plan of the job that these fields of a job file describe."""
        return await self.jobs.plan(actor, JobFile.model_validate(fields))

    async def running(self, **fields: object) -> Job:
        """Create a batch job that has just started and has an hour left."""
        job = await self.create(max_duration="1h", **fields)
        return await self.walk(
            job,
            *(JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING),
            allocated_at=self.clock(),
            started_at=self.clock(),
            expires_at=self.clock() + timedelta(hours=1),
        )

    async def ready(self, actor: Actor = ADA, **fields: object) -> Job:
        """Create a session that has just become ready and has an hour left."""
        job = await self.create(actor, type="session", max_duration="1h", **fields)
        return await self.walk(
            job,
            *(JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING),
            JobState.READY,
            allocated_at=self.clock(),
            started_at=self.clock(),
            expires_at=self.clock() + timedelta(hours=1),
            url="http://127.0.0.1:8001/user/ada/s-1/lab",
        )


@pytest.fixture
async def bench(tmp_path: Path, migrated: Path) -> AsyncIterator[Bench]:
    shutil.copy(migrated, tmp_path)
    clock, files = Clock(), MemoryFiles()
    limits = LimitSettings(max_duration=86_400, max_nodes=4, max_array_tasks=20, max_live_jobs=30)
    settings = Settings(data_dir=tmp_path, limits=limits)
    store = Store(settings.database_url, clock=clock)
    await store.start()
    try:
        lease = await store.acquire_lease("controller", "test", duration_s=1e6)
        assert lease is not None
        for actor in EVERYONE:
            project = Project(name=actor.user.default_project, created_at=START)
            await store.create_user(actor.user, None, project)
        runtimes = {"bare": FakeRuntime(), "apptainer": FakeRuntime("apptainer")}
        renderer = Renderer(settings, runtimes, own_software())
        await store.add_image(PYTORCH, actor="root")
        scheduler = Oracle()
        admission = Admission(
            store,
            TEMPLATES,
            renderer,
            settings,
            OwnAccount(settings),
            ClusterService(store, None, settings, clock, fresh_s=0),
            LimitCheck(store, clock, "root"),
            offers(store, settings, runtimes, clock),
            UserSecretService(store, Cipher(lambda: "key"), clock),
            clock,
            topology := FixedTopology(),
        )
        jobs = JobService(store, admission, renderer, files, Forecaster(renderer, scheduler), clock)
        extensions = ExtensionService(store, settings, clock)
        sessions = SessionService(jobs, extensions, store, clock)
        failures = FailureService(jobs, admission)
        bench = Bench(
            store,
            renderer,
            jobs,
            sessions,
            extensions,
            failures,
            files,
            clock,
            lease.epoch,
            scheduler,
            topology,
        )
        await bench.nodes(make_node())
        yield bench
    finally:
        await store.close()
