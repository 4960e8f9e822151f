"""Construction of all services over one store, for the API and for commands.

``build_platform`` only creates objects: nothing is opened or connected before ``start`` of the store is
called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from aitne.adapters.accounting.none import NoAccounting
from aitne.adapters.dataset_manifest_store import ManifestFolder
from aitne.adapters.hub_logout_client import HubLoginsClient
from aitne.adapters.identity.password import PasswordIdentity
from aitne.adapters.image_file_check import ImagesFolder
from aitne.adapters.local_probes import LocalProbes
from aitne.adapters.tree_folder import TreeFolder
from aitne.bootstrap.adapters import (
    get_unix_account_name,
    limits_applied,
    list_available_channels,
    make_account_files,
    make_accounting,
    make_accounts,
    make_attacher,
    make_identity_sources,
    make_job_files,
    make_outside_jobs,
    make_runtimes,
    make_secret_files,
    make_shared_scheduler,
    make_store,
    make_user_folders,
    utc_now,
)
from aitne.bootstrap.job_script_renderer import make_renderer
from aitne.bootstrap.topology_reader import read_part
from aitne.core.ports.scheduler import Scheduler
from aitne.core.settings import Settings
from aitne.core.users.ended_credentials import EndedCredentials
from aitne.local_system.own_account import own_account_name
from aitne.services.audit import AuditService
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.gpu_availability import CapacityService
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.services.cluster.node_reports import NodeReports
from aitne.services.cluster.topology_imports import TopologyImports
from aitne.services.datasets.datasets import DatasetService
from aitne.services.datasets.permitted_dataset_folders import DatasetPaths
from aitne.services.hyperparameter_sweeps import SweepService
from aitne.services.images.image_chooser import ImageChooser
from aitne.services.images.images import ImageService
from aitne.services.jobs.admission import Admission
from aitne.services.jobs.bulk_cancellation import BulkCancel
from aitne.services.jobs.executed_notebooks import NotebookService
from aitne.services.jobs.failure_explanations import FailureService
from aitne.services.jobs.function_results import JobResultService
from aitne.services.jobs.job_agent_reports import SnapshotService
from aitne.services.jobs.job_comparison import ComparisonService
from aitne.services.jobs.job_deletion import JobDeletion
from aitne.services.jobs.job_input_availability import AvailabilityService
from aitne.services.jobs.job_placement import JobPlacementService
from aitne.services.jobs.jobs import JobService
from aitne.services.jobs.live_usage import LiveUsage
from aitne.services.jobs.program_requests import ProgramService
from aitne.services.jobs.requests_from_agents import AgentService
from aitne.services.jobs.reruns import RerunService
from aitne.services.jobs.start_advice import StartAdviceService
from aitne.services.jobs.start_forecast import Forecaster
from aitne.services.jobs.template_catalog import TemplateCatalog, builtin_folder
from aitne.services.jobs.time_limit_extensions import ExtensionService
from aitne.services.jobs.uploaded_trees import TreeService
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
from aitne.services.platform.shared_secrets import read_secret
from aitne.services.projects.account_sync import SyncService
from aitne.services.projects.invitations import InvitationService
from aitne.services.projects.limit_checks import LimitCheck, LimitSupport
from aitne.services.projects.monthly_usage import UsageMonths
from aitne.services.projects.project_life_cycle import ProjectLife
from aitne.services.projects.project_report import ReportService
from aitne.services.projects.projects import ProjectService
from aitne.services.projects.slurm_account_import import AccountImport
from aitne.services.projects.usage import UsageService
from aitne.services.sessions.hub_agent_handovers import HandoverService
from aitne.services.sessions.inside_session import InsideService
from aitne.services.sessions.rank_groups import RankGroupService
from aitne.services.sessions.session_address_check import NodeAddresses
from aitne.services.sessions.session_service import SessionService
from aitne.services.sessions.terminals import TerminalService
from aitne.services.storage_areas import StorageService
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
from aitne.services.users.second_factor import SecondFactors
from aitne.services.users.user_secrets import UserSecretService
from aitne.services.users.users_and_tokens import UserService
from aitne.store import Store


@dataclass(frozen=True, slots=True)
class PlatformServices:
    """All services of the platform, created from one ``Settings`` over one shared store. The API,
    the controller and commands take the services they need from here.
    """

    settings: Settings
    store: Store
    scheduler: Scheduler | None
    """Scheduler for queries such as forecasts, if processes other than the controller may use it;
    otherwise None.
    """
    clock: Callable[[], datetime]
    templates: TemplateCatalog
    jobs: JobService
    sessions: SessionService
    ranks: RankGroupService
    extensions: ExtensionService
    identity: IdentityService
    account: AccountService
    users: UserService
    projects: ProjectService
    project_life: ProjectLife
    invitations: InvitationService
    reports: ReportService
    sync: SyncService
    usage: UsageService
    storage: StorageService
    images: ImageService
    datasets: DatasetService
    oauth: OAuthService
    device_logins: DeviceLoginService
    events: EventHub
    cluster: ClusterService
    topologies: ClusterTopologies
    topology_imports: TopologyImports
    agents: AgentService
    handovers: HandoverService
    inside: InsideService
    first_run: FirstRun
    snapshots: SnapshotService
    placements: JobPlacementService
    sweeps: SweepService
    comparisons: ComparisonService
    reruns: RerunService
    bulk: BulkCancel
    deletion: JobDeletion
    capacity: CapacityService
    advice: StartAdviceService
    failures: FailureService
    job_results: JobResultService
    files: FileService
    programs: ProgramService
    preferences: PreferenceService
    user_secrets: UserSecretService
    trees: TreeService
    notebooks: NotebookService
    audit: AuditService
    notifications: NotificationService
    terminals: TerminalService
    hub_logouts: HubLogouts
    announcements: AnnouncementService
    alerts: AlertService
    maintenance: MaintenanceService
    health: HealthService
    audit_checks: AuditChecks
    measurements: Measurements
    end_streams: list[Callable[[EndedCredentials], None]] = field(default_factory=list)
    """Functions that close the open streams of ended credentials."""

    async def close_connections_of_user(self, name: str) -> None:
        """End all connections that a user opened, because some of the user's credentials were
        revoked. Clients with other valid credentials reconnect.
        """
        await self.close_connections(EndedCredentials(owner=name))

    async def close_connections(self, ended: EndedCredentials) -> None:
        """End all connections that were opened with credentials that are no longer valid: terminals,
        streams, and logins at JupyterHub.
        """
        for end in self.end_streams:
            end(ended)
        self.hub_logouts.wake()
        await self.terminals.end_terminals_of(ended)


def build_platform(settings: Settings) -> PlatformServices:
    """Create all services over a store that is not open yet; the caller opens it with
    ``platform.store.start()``.
    """
    store = make_store(settings)
    accounts = PasswordIdentity()
    audit = AuditService(store, utc_now)
    factors = SecondFactors(store, settings, utc_now)
    login_links = LoginLinks(store, settings, utc_now)
    arrivals = LoginService(store, settings, utc_now, make_identity_sources(settings, utc_now))
    templates = TemplateCatalog([builtin_folder(), *settings.templates])
    events = EventHub(store)
    runtimes = make_runtimes(settings)
    renderer = make_renderer(settings, runtimes)
    scheduler = make_shared_scheduler(settings)
    live_usage = LiveUsage()
    cluster = ClusterService(
        store, scheduler, settings, utc_now, cpu_power_w=live_usage.cpu_power_w
    )
    topologies = ClusterTopologies(store, cluster, settings.topology)
    unix_accounts = make_accounts(settings)
    places = make_user_folders(settings)
    storage = StorageService(settings.storage, unix_accounts, places, utc_now)
    images = ImageService(store, ImagesFolder(settings.images_dir), utc_now)
    datasets = DatasetService(
        store,
        ManifestFolder(settings.manifests_dir),
        DatasetPaths(settings.storage, unix_accounts, places),
        utc_now,
    )
    chooser = ImageChooser(
        runtimes, settings.containers, remote=not settings.capabilities.trusts_agents
    )
    snapshots, sweeps = SnapshotService(store), SweepService(store, utc_now)
    trees = TreeService(
        store, TreeFolder(settings.trees_dir, settings.trees), settings.trees, utc_now
    )
    offers = AvailabilityService(images, datasets, storage, places, chooser, trees, settings)
    cipher = Cipher(partial(read_secret, settings, ENCRYPTION_KEY))
    secrets = UserSecretService(store, cipher, utc_now)
    admission = Admission(
        store,
        templates,
        renderer,
        settings,
        unix_accounts,
        cluster,
        LimitCheck(store, utc_now, None if settings.capabilities.limits else own_account_name()),
        offers,
        secrets,
        utc_now,
        topologies,
    )
    forecaster = Forecaster(renderer, scheduler)
    capacity = CapacityService(store, cluster, utc_now)
    files = make_job_files(settings)
    jobs = JobService(
        store,
        admission,
        renderer,
        files,
        forecaster,
        utc_now,
        make_outside_jobs(settings),
    )
    extensions = ExtensionService(store, settings, utc_now)
    users = UserService(store, settings, utc_now, accounts)
    accounting = make_accounting(settings) or NoAccounting(settings.scheduler)
    unix = partial(get_unix_account_name, settings)
    operators = frozenset(filter(None, [settings.slurm.operator]))
    alone = settings.broker.socket is None
    usage = UsageService(store, UsageMonths(store, accounting, utc_now), utc_now)
    imports = AccountImport(
        store, accounting, unix, utc_now, map_=settings.accounts.map, operators=operators
    )
    support = LimitSupport(settings.capabilities, limits_applied(settings))
    probes = LocalProbes()
    agents = AgentService(
        store,
        utc_now,
        events,
        snapshots,
        sweeps,
        secrets,
        trees,
        NodeReports(store, topologies, settings.topology, utc_now),
        live_usage,
        trusted=settings.capabilities.trusts_agents,
    )
    handovers = HandoverService(
        store,
        events,
        NodeAddresses(store, settings),
        cipher,
        url=settings.agents_url,
        trusted=settings.capabilities.trusts_agents,
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
            utc_now,
            topologies,
            presented,
            FileChecks(settings, templates, utc_now, make_secret_files(settings)),
        ),
        ProcessRestarts(store, settings.run_dir),
        utc_now,
    )
    audit_checks = AuditChecks(audit, utc_now)
    return PlatformServices(
        settings=settings,
        store=store,
        scheduler=scheduler,
        clock=utc_now,
        templates=templates,
        jobs=jobs,
        sessions=SessionService(jobs, extensions, store, utc_now),
        ranks=RankGroupService(jobs, store, utc_now),
        extensions=extensions,
        identity=IdentityService(store, settings, utc_now, arrivals, factors, audit, login_links),
        account=AccountService(store, settings, utc_now, accounts, factors, arrivals, login_links),
        users=users,
        projects=ProjectService(
            store,
            utc_now,
            support,
            None if alone else settings.accounts.map,
        ),
        project_life=ProjectLife(store, settings.projects, support, utc_now, settings.retention),
        invitations=InvitationService(store, settings.portal_url, utc_now),
        reports=ReportService(store, usage, utc_now),
        sync=SyncService(
            store,
            accounting,
            unix,
            operators=operators,
            runs_as=own_account_name() if alone else None,
        ),
        usage=usage,
        storage=storage,
        images=images,
        datasets=datasets,
        oauth=OAuthService(store, settings, utc_now),
        device_logins=DeviceLoginService(store, settings, utc_now, users),
        events=events,
        cluster=cluster,
        topologies=topologies,
        topology_imports=TopologyImports(store, read_part),
        bulk=BulkCancel(jobs, store, utc_now),
        deletion=JobDeletion(jobs, store, utc_now),
        capacity=capacity,
        advice=StartAdviceService(store, cluster, capacity),
        failures=FailureService(jobs, admission),
        job_results=JobResultService(
            store, files, renderer.get_location, settings.limits.max_result
        ),
        files=FileService(
            store, make_account_files(settings), renderer.get_location, unix_accounts
        ),
        programs=ProgramService(store),
        preferences=PreferenceService(store),
        user_secrets=secrets,
        trees=trees,
        notebooks=NotebookService(jobs, files, renderer),
        terminals=TerminalService(store, renderer, make_attacher(settings), unix_accounts, utc_now),
        hub_logouts=HubLogouts(
            store,
            HubLoginsClient(settings.port_of_hub, partial(read_secret, settings, "hub_api_token")),
            utc_now,
        ),
        inside=InsideService(store, utc_now, settings.portal_url),
        agents=agents,
        handovers=handovers,
        first_run=FirstRun(
            store, users, settings, utc_now, imports if settings.slurm.import_users else None
        ),
        snapshots=snapshots,
        placements=JobPlacementService(store, topologies),
        sweeps=sweeps,
        comparisons=ComparisonService(store, snapshots, images),
        reruns=RerunService(store, jobs, admission, snapshots, datasets, templates, places),
        audit=audit,
        notifications=NotificationService(
            store, settings, partial(list_available_channels, settings), utc_now
        ),
        announcements=AnnouncementService(store, utc_now),
        alerts=AlertService(store, utc_now),
        maintenance=MaintenanceService(store, utc_now),
        health=health,
        audit_checks=audit_checks,
        measurements=Measurements(
            store, settings, probes, health, audit_checks, agents.usage, presented, utc_now
        ),
    )
