"""A platform without processes: real services on a SQLite file, and a clock that tests set."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI

from aitne.adapters.identity.password import PasswordIdentity
from aitne.adapters.image_file_check import ImagesFolder
from aitne.adapters.local_probes import LocalProbes
from aitne.adapters.node_software_folder import own_software
from aitne.adapters.own_account_files import OwnAccountFiles
from aitne.adapters.runtimes.bare import BareRuntime
from aitne.adapters.unix_account_mapping import OwnAccount
from aitne.adapters.user_folder_operations import OwnUserFolders
from aitne.api.app import create_app
from aitne.api.dependencies import cookie_name
from aitne.api.routers.alertmanager import ALERTS_TOKEN
from aitne.api.routers.probes_and_metrics import METRICS_TOKEN
from aitne.bootstrap.adapters import list_available_channels
from aitne.bootstrap.platform_services import PlatformServices
from aitne.bootstrap.topology_reader import read_part
from aitne.core.errors import NotAllowed
from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.limits import LimitsApplied
from aitne.core.models.user import Actor, Role, User
from aitne.core.ports.identity_source import IdentitySource
from aitne.core.ports.scheduler import get_scheduler_capabilities
from aitne.core.settings import Settings
from aitne.services.audit import AuditService
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.gpu_availability import CapacityService
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.services.cluster.node_reports import NodeReports
from aitne.services.cluster.topology_imports import TopologyImports
from aitne.services.hyperparameter_sweeps import SweepService
from aitne.services.images.images import ImageService
from aitne.services.jobs.admission import Admission
from aitne.services.jobs.bulk_cancellation import BulkCancel
from aitne.services.jobs.executed_notebooks import NotebookService
from aitne.services.jobs.failure_explanations import FailureService
from aitne.services.jobs.function_results import JobResultService
from aitne.services.jobs.job_agent_reports import SnapshotService
from aitne.services.jobs.job_comparison import ComparisonService
from aitne.services.jobs.job_deletion import JobDeletion
from aitne.services.jobs.job_placement import JobPlacementService
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.jobs.jobs import JobService
from aitne.services.jobs.live_usage import LiveUsage
from aitne.services.jobs.program_requests import ProgramService
from aitne.services.jobs.requests_from_agents import AgentService
from aitne.services.jobs.reruns import RerunService
from aitne.services.jobs.start_advice import StartAdviceService
from aitne.services.jobs.start_forecast import Forecaster
from aitne.services.jobs.time_limit_extensions import ExtensionService
from aitne.services.monitoring.audit_checks import AuditChecks
from aitne.services.monitoring.health import HealthService
from aitne.services.monitoring.health_checks import HealthChecks
from aitne.services.monitoring.measurements import Measurements
from aitne.services.monitoring.platform_file_checks import FileChecks
from aitne.services.notifications.announcements import AnnouncementService
from aitne.services.notifications.monitoring_alerts import AlertService
from aitne.services.notifications.user_notifications import NotificationService
from aitne.services.platform.certificate_authorities import session_signer
from aitne.services.platform.encryption import KEY_NAME as ENCRYPTION_KEY
from aitne.services.platform.encryption import Cipher
from aitne.services.platform.event_hub import EventHub
from aitne.services.platform.maintenance import MaintenanceService
from aitne.services.platform.presented_certificates import PresentedCertificates
from aitne.services.platform.process_restart_audit import ProcessRestarts
from aitne.services.platform.secret_file_inventory import SecretFiles
from aitne.services.projects.account_sync import SyncService
from aitne.services.projects.invitations import InvitationService
from aitne.services.projects.limit_checks import LimitCheck, LimitSupport
from aitne.services.projects.monthly_usage import UsageMonths
from aitne.services.projects.project_life_cycle import ProjectLife
from aitne.services.projects.project_report import ReportService
from aitne.services.projects.projects import ProjectService
from aitne.services.projects.usage import UsageService
from aitne.services.sessions.hub_agent_handovers import HandoverService
from aitne.services.sessions.inside_session import InsideService
from aitne.services.sessions.rank_groups import RankGroupService
from aitne.services.sessions.session_address_check import NodeAddresses
from aitne.services.sessions.session_service import SessionService
from aitne.services.sessions.terminals import TerminalService
from aitne.services.user_files import FileService
from aitne.services.users.account_service import AccountService
from aitne.services.users.authentication_service import IdentityService
from aitne.services.users.device_logins import DeviceLoginService
from aitne.services.users.first_run import FirstRun
from aitne.services.users.hub_logouts import HubLogouts
from aitne.services.users.hub_oauth_provider import OAuthService
from aitne.services.users.login_links import LoginLinks
from aitne.services.users.login_service import LoginService
from aitne.services.users.preferences import PreferenceService
from aitne.services.users.second_factor import KEY_NAME, SecondFactors
from aitne.services.users.user_secrets import UserSecretService
from aitne.services.users.users_and_tokens import UserService
from aitne.store import Store
from tests.support.accounting import MemoryAccounting
from tests.support.echo import EchoAttacher
from tests.support.files import MemoryFiles
from tests.support.hub import RecordingLogins
from tests.support.offers import dataset_service, offers, storage_service, tree_service
from tests.support.outside import MemoryOutside
from tests.support.runtimes import FakeRuntime
from tests.support.templates import TEMPLATES

T = TypeVar("T")
PASSWORD = "correct horse battery staple"
SECRETS = {
    "oauth_client_secret": "client-secret",
    "hub_service_secret": "hub-secret",
    KEY_NAME: "key",
    "webhook_key": "webhook-key",
    METRICS_TOKEN: "metrics-token",
    ALERTS_TOKEN: "alerts-token",
    ENCRYPTION_KEY: "encryption-key",
}


SCRAPER = {"Authorization": f"Bearer {SECRETS[METRICS_TOKEN]}"}
"""The headers of Prometheus's requests."""


@dataclass(slots=True)
class Clock:
    """Stands still until it is moved."""

    now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the current time of the test."""
        return self.now

    def move(self, seconds: float) -> None:
        """Advance the time by so many seconds."""
        self.now += timedelta(seconds=seconds)


@dataclass(slots=True)
class Stage:
    """The platform, and what only tests may touch."""

    platform: PlatformServices
    store: Store
    clock: Clock
    files: MemoryFiles
    app: FastAPI
    accounting: MemoryAccounting
    attacher: EchoAttacher
    outside: MemoryOutside

    @property
    def settings(self) -> Settings:
        """The settings of the running platform."""
        return self.platform.settings

    def actor(self, name: str, role: Role = Role.USER, *projects: str) -> Actor:
        """Return an actor with all scopes, whether the store has that user or not."""
        user = User(name=name, role=role, default_project=name, created_at=self.clock.now)
        return Actor(user=user, projects=frozenset(projects or (name,)))

    async def add_user(
        self, name: str, role: Role = Role.USER, project: str | None = None
    ) -> Actor:
        """Create a user with the password of all users of a stage."""
        root = self.actor("root", Role.ADMIN)
        user = await self.platform.users.create(
            root, name=name, password=PASSWORD, role=role, default_project=project
        )
        return Actor(user=user, projects=frozenset(await self.store.list_user_roles(name)))

    async def token(self, actor: Actor, *scopes: Scope, lifetime_s: int | None = None) -> str:
        """Create a personal access token of the actor; return its secret."""
        wanted = frozenset(scopes) or (
            frozenset(Scope) if actor.is_admin else frozenset({Scope.READ, Scope.WRITE})
        )
        _, secret = await self.platform.users.create_token(
            actor, name="test", scopes=wanted, lifetime_s=lifetime_s, notify=False
        )
        return secret

    def client(self, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        """Return an API client with a token, or without any credential."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, **options),
            base_url=self.settings.portal_url,
            headers=headers,
        )

    @asynccontextmanager
    async def browser(self, name: str) -> AsyncIterator[httpx.AsyncClient]:
        """Log in during the block; yield a client that sends what a page of the portal sends."""
        async with self.client() as client:
            client.headers["Origin"] = self.settings.portal_url
            me = await client.post(
                "/api/v1/auth/login", json={"username": name, "password": PASSWORD}
            )
            assert me.status_code == 200, me.text
            client.headers["X-CSRF-Token"] = me.json()["csrf_token"]
            yield client

    @property
    def cookie(self) -> str:
        """The name of the login cookie."""
        return cookie_name(self.settings)

    async def make_ready(self, session: Job) -> None:
        """Bring a session that was just created to READY."""
        for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING):
            await self.store.transition_job(session.id, state)
        changes = JobChanges(
            url="http://sessions.test/lab",
            allocated_at=self.clock.now,
            started_at=self.clock.now,
            expires_at=self.clock.now.replace(hour=13),
        )
        await self.store.transition_job(session.id, JobState.READY, changes)

    async def add_node(self, **fields: Any) -> int:
        """Add a node that can run small jobs; return the epoch of the controller that reported it."""
        lease = await self.store.acquire_lease("controller", "test", duration_s=60)
        assert lease is not None
        node = Node(
            name="node01",
            state=NodeState.IDLE,
            cpu_total=8,
            cpu_used=0,
            memory_total_bytes=16 << 30,
            memory_used_bytes=0,
            seen_at=self.clock.now,
            **fields,
        )
        await self.store.save_cluster(Cluster(nodes=(node,)), epoch=lease.epoch)
        return lease.epoch


def unix_name(name: str) -> str:
    """Return the user's own name as the Unix account.

    Raises:
        NotAllowed: the user is `daemon`.
    """
    if name == "daemon":
        raise NotAllowed("Jobs may not run as daemon: its uid 1 is not between 1000 and 60000.")
    return name


Sources = Callable[[Settings, Callable[[], datetime]], Sequence[IdentitySource]]


def make_stage(
    folder: Path, sources: Sources = lambda settings, clock: (), **overrides: Any
) -> Stage:
    """Return a stage on a SQLite file in ``folder`` that is not opened yet.

    ``sources`` check logins after the platform itself; ``overrides`` are settings.
    """
    clock = Clock()
    scheme = "https" if overrides.get("tls") else "http"
    several = {"public_url": f"{scheme}://portal.test:8000", "trusted_users": True}
    settings = Settings(data_dir=folder, **{**several, **overrides})
    settings.secrets_dir.mkdir(parents=True, exist_ok=True)
    for name, secret in SECRETS.items():
        (settings.secrets_dir / name).write_text(secret)
    store = Store(settings.database_url, clock=clock)
    accounts = PasswordIdentity(hasher=PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    audit = AuditService(store, clock)
    factors = SecondFactors(store, settings, clock)
    login_links = LoginLinks(store, settings, clock)
    arrivals = LoginService(store, settings, clock, [accounts, *sources(settings, clock)])
    files = MemoryFiles()
    runtimes = {"bare": BareRuntime(settings), "apptainer": FakeRuntime("apptainer")}
    renderer = Renderer(settings, runtimes, own_software())
    live_usage = LiveUsage()
    cluster = ClusterService(
        store, None, settings, clock, fresh_s=0, cpu_power_w=live_usage.cpu_power_w
    )
    topologies = ClusterTopologies(store, cluster, settings.topology, fresh_s=0)
    snapshots, sweeps = SnapshotService(store), SweepService(store, clock)
    images = ImageService(store, ImagesFolder(settings.images_dir), clock)
    datasets = dataset_service(store, settings, clock)
    cipher = Cipher(lambda: SECRETS[ENCRYPTION_KEY])
    secrets = UserSecretService(store, cipher, clock)
    trees = tree_service(store, settings, clock)
    admission = Admission(
        store,
        TEMPLATES,
        renderer,
        settings,
        OwnAccount(settings),
        cluster,
        LimitCheck(store, clock, "root"),
        offers(store, settings, runtimes, clock),
        secrets,
        clock,
        topologies,
    )
    capacity = CapacityService(store, cluster, clock)
    outside = MemoryOutside()
    jobs = JobService(store, admission, renderer, files, Forecaster(renderer, None), clock, outside)
    accounting = MemoryAccounting()
    attacher = EchoAttacher()
    usage = UsageService(store, UsageMonths(store, accounting, clock), clock)
    events = EventHub(store)
    extensions = ExtensionService(store, settings, clock)
    users = UserService(store, settings, clock, accounts)
    support = LimitSupport(get_scheduler_capabilities("slurm_cli"), LimitsApplied.AFTER_SYNC)
    probes = LocalProbes()
    agents = AgentService(
        store,
        clock,
        events,
        snapshots,
        sweeps,
        secrets,
        trees,
        NodeReports(store, topologies, settings.topology, clock),
        live_usage,
        trusted=not settings.capabilities.remote,
    )
    handovers = HandoverService(
        store,
        events,
        NodeAddresses(store, settings),
        cipher,
        url=settings.agents_url,
        trusted=not settings.capabilities.remote,
        certificates=session_signer(settings) if settings.tls.enabled else None,
    )
    presented = PresentedCertificates(settings, probes)
    health = HealthService(
        HealthChecks(
            store,
            settings,
            probes,
            cluster,
            events,
            clock,
            topologies,
            presented,
            FileChecks(settings, TEMPLATES, clock, SecretFiles(settings, None)),
        ),
        ProcessRestarts(store, settings.run_dir),
        clock,
    )
    audit_checks = AuditChecks(audit, clock)
    platform = PlatformServices(
        settings=settings,
        store=store,
        scheduler=None,
        clock=clock,
        templates=TEMPLATES,
        jobs=jobs,
        sessions=SessionService(jobs, extensions, store, clock),
        ranks=RankGroupService(jobs, store, clock),
        extensions=extensions,
        identity=IdentityService(store, settings, clock, arrivals, factors, audit, login_links),
        account=AccountService(store, settings, clock, accounts, factors, arrivals, login_links),
        users=users,
        projects=ProjectService(store, clock, support, {}),
        project_life=ProjectLife(store, settings.projects, support, clock),
        invitations=InvitationService(store, settings.portal_url, clock),
        reports=ReportService(store, usage, clock),
        sync=SyncService(store, accounting, unix_name, operators=frozenset(), runs_as=None),
        usage=usage,
        storage=storage_service(settings, clock),
        images=images,
        datasets=datasets,
        oauth=OAuthService(store, settings, clock),
        device_logins=DeviceLoginService(store, settings, clock, users),
        events=events,
        cluster=cluster,
        topologies=topologies,
        topology_imports=TopologyImports(store, read_part),
        placements=JobPlacementService(store, topologies),
        terminals=TerminalService(store, renderer, attacher, OwnAccount(settings), clock),
        hub_logouts=HubLogouts(store, RecordingLogins(), clock),
        bulk=BulkCancel(jobs, store, clock),
        deletion=JobDeletion(jobs, store, clock),
        capacity=capacity,
        advice=StartAdviceService(store, cluster, capacity),
        failures=FailureService(jobs, admission),
        job_results=JobResultService(
            store, files, renderer.get_location, settings.limits.max_result
        ),
        files=FileService(store, OwnAccountFiles(), renderer.get_location, OwnAccount(settings)),
        programs=ProgramService(store),
        preferences=PreferenceService(store),
        user_secrets=secrets,
        trees=trees,
        notebooks=NotebookService(jobs, files, renderer),
        inside=InsideService(store, clock, settings.portal_url),
        agents=agents,
        handovers=handovers,
        first_run=FirstRun(store, users, settings, clock),
        snapshots=snapshots,
        sweeps=sweeps,
        comparisons=ComparisonService(store, snapshots, images),
        reruns=RerunService(
            store,
            jobs,
            admission,
            snapshots,
            datasets,
            TEMPLATES,
            OwnUserFolders(settings.storage, {}),
        ),
        audit=audit,
        notifications=NotificationService(
            store, settings, partial(list_available_channels, settings), clock
        ),
        announcements=AnnouncementService(store, clock),
        alerts=AlertService(store, clock),
        maintenance=MaintenanceService(store, clock),
        health=health,
        audit_checks=audit_checks,
        measurements=Measurements(
            store, settings, probes, health, audit_checks, agents.usage, presented, clock, fresh_s=0
        ),
    )
    return Stage(platform, store, clock, files, create_app(platform), accounting, attacher, outside)


async def make_blank(folder: Path) -> Path:
    """Create an empty, migrated database that stages are copied from."""
    store = Store(f"sqlite:///{folder / 'blank.db'}")
    await store.start()
    await store.close()
    return folder / "blank.db"


async def make_begun(
    folder: Path, blank: Path, prepare: Callable[[Stage], Awaitable[T]]
) -> tuple[Path, T]:
    """Create a prepared database that stages are copied from; return it and `prepare`'s result."""
    async with open_stage(folder, blank) as stage:
        made = await prepare(stage)
    return folder / "aitne.db", made


@asynccontextmanager
async def open_stage(
    folder: Path,
    blank: Path,
    sources: Sources = lambda settings, clock: (),
    **overrides: Any,
) -> AsyncIterator[Stage]:
    """Run a stage during the block."""
    stage = make_stage(folder, sources, **overrides)
    shutil.copy(blank, stage.settings.data_dir / "aitne.db")
    await stage.store.start()
    try:
        async with stage.app.router.lifespan_context(stage.app):
            yield stage
    finally:
        await stage.store.close()
