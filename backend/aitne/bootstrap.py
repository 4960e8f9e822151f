"""Floor 2: the only place that chooses adapters and wires them to services.

``build`` makes what the API and the one-shot programs need; ``build_controller`` what the controller
process needs. Both only construct: nothing is opened or connected before ``start`` is called on it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from aitne.adapters.accounting.none import NoAccounting
from aitne.adapters.accounting.slurm import SlurmAccounting
from aitne.adapters.accounts import (
    OwnAccount,
    UnixAccounts,
    own_account_name,
    permitted_user,
)
from aitne.adapters.command.local import LocalCommand
from aitne.adapters.files import OwnFiles
from aitne.adapters.identity.password import PasswordIdentity
from aitne.adapters.node_software import SoftwareFolder, own_software
from aitne.adapters.store.sql import SqlStore
from aitne.core.ports.accounting import Accounting
from aitne.core.ports.accounts import Accounts
from aitne.core.ports.files import JobFiles
from aitne.core.ports.runtime import Runtime
from aitne.core.ports.scheduler import Scheduler
from aitne.core.ports.store import Store
from aitne.core.ports.tools import Tools
from aitne.core.registry import Registry
from aitne.core.settings import Settings
from aitne.services.addresses import NodeAddresses
from aitne.services.agents import AgentService
from aitne.services.cluster import ClusterService
from aitne.services.controller import Controller
from aitne.services.events import EventHub
from aitne.services.first_run import FirstRun
from aitne.services.forecast import Forecaster
from aitne.services.identity import IdentityService
from aitne.services.import_accounts import AccountImport
from aitne.services.jobs import JobService
from aitne.services.limits import LimitCheck
from aitne.services.oauth import OAuthService
from aitne.services.projects import ProjectService
from aitne.services.render import Renderer
from aitne.services.secrets import read_secret
from aitne.services.sessions import SessionService
from aitne.services.sync import SyncService
from aitne.services.templates import TemplateCatalog, builtin_folder
from aitne.services.usage import UsageService
from aitne.services.users import UserService

SCHEDULERS: Registry[Scheduler] = Registry(
    "scheduler", "aitne.adapters.schedulers", "aitne.schedulers"
)
RUNTIMES: Registry[Runtime] = Registry("runtime", "aitne.adapters.runtimes", "aitne.runtimes")


@dataclass(frozen=True, slots=True)
class Platform:
    """The services over one store."""

    settings: Settings
    store: SqlStore
    scheduler: Scheduler | None
    """For what is only asked (forecasts), where several processes may hold one; else None."""
    clock: Callable[[], datetime]
    templates: TemplateCatalog
    jobs: JobService
    sessions: SessionService
    identity: IdentityService
    users: UserService
    projects: ProjectService
    sync: SyncService
    usage: UsageService
    oauth: OAuthService
    events: EventHub
    cluster: ClusterService
    agents: AgentService
    first_run: FirstRun


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """The controller and what has to be started before and closed after it."""

    store: Store
    scheduler: Scheduler
    controller: Controller
    close_hub: Callable[[], Awaitable[None]]


def utc_now() -> datetime:
    """The clock of every process."""
    return datetime.now(UTC)


def build(settings: Settings) -> Platform:
    """Everything over a store that is not open yet: call ``platform.store.start()``."""
    store = SqlStore(settings.database_url)
    accounts = PasswordIdentity()
    templates = TemplateCatalog([builtin_folder(), *settings.templates])
    events = EventHub(store)
    renderer = _renderer(settings)
    scheduler = shared_scheduler(settings)
    cluster = ClusterService(store, scheduler, settings, utc_now)
    jobs = JobService(
        store,
        templates,
        renderer,
        settings,
        job_files(settings),
        job_accounts(settings),
        cluster,
        Forecaster(renderer, scheduler),
        LimitCheck(store, utc_now, own_account_name()),
        utc_now,
    )
    users = UserService(store, utc_now, accounts)
    accounting = make_accounting(settings)
    unix = partial(unix_name, settings)
    operators = frozenset(filter(None, [settings.slurm.operator]))
    alone = settings.broker.socket is None
    imports = AccountImport(
        store, accounting, unix, utc_now, map_=settings.accounts.map, operators=operators
    )
    return Platform(
        settings=settings,
        store=store,
        scheduler=scheduler,
        clock=utc_now,
        templates=templates,
        jobs=jobs,
        sessions=SessionService(jobs, store, settings, utc_now),
        identity=IdentityService(store, settings, utc_now, accounts),
        users=users,
        projects=ProjectService(store, utc_now),
        sync=SyncService(
            store,
            accounting,
            unix,
            operators=operators,
            runs_as=own_account_name() if alone else None,
        ),
        usage=UsageService(store, accounting, utc_now),
        oauth=OAuthService(store, settings, utc_now),
        events=events,
        cluster=cluster,
        agents=AgentService(
            store,
            utc_now,
            events,
            NodeAddresses(store, settings),
            trusted=not settings.on_slurm,
        ),
        first_run=FirstRun(
            store, users, settings, utc_now, imports if settings.slurm.import_users else None
        ),
    )


def build_controller(settings: Settings, *, holder: str) -> ControllerParts:
    """The controller's own parts. ``holder`` names the process in the lease.

    Raises:
        SetupError: a plug-in or a secret that the settings name is not there.
    """
    # It brings httpx along, which the API's process does without.
    from aitne.adapters.hub import HubClient

    store = SqlStore(settings.database_url)
    scheduler = make_scheduler(settings)
    hub = HubClient(
        f"http://127.0.0.1:{settings.port_of_hub}", read_secret(settings, "hub_api_token")
    )
    controller = Controller(
        store,
        scheduler,
        job_files(settings),
        hub,
        _renderer(settings),
        utc_now,
        holder=holder,
        sessions_origin=settings.sessions_origin,
        poll_interval_s=settings.poll_interval_s,
        accounting=make_accounting(settings) if settings.on_slurm else None,
    )
    return ControllerParts(store, scheduler, controller, hub.close)


def make_scheduler(settings: Settings) -> Scheduler:
    """The scheduler that the settings name, or the broker that holds it.

    Raises:
        SetupError: there is none of that name.
    """
    if settings.broker.socket is not None:
        from aitne.adapters.broker import BrokerScheduler

        return BrokerScheduler(settings)
    make = SCHEDULERS.get(settings.scheduler)
    return make(settings, Tools(LocalCommand(settings.slurm.command_prefix), OwnFiles()))


def shared_scheduler(settings: Settings) -> Scheduler | None:
    """The scheduler for a process that is not the controller, if it can have one of its own."""
    if settings.broker.socket is None and not getattr(
        SCHEDULERS.get(settings.scheduler), "shared", False
    ):
        return None
    return make_scheduler(settings)


def make_accounting(settings: Settings) -> Accounting:
    """Who keeps the accounts: Slurm, by the broker where there is one, or nobody."""
    if not settings.on_slurm:
        return NoAccounting(settings.scheduler)
    if settings.broker.socket is not None:
        from aitne.adapters.accounting.broker import BrokerAccounting

        return BrokerAccounting(settings)
    return SlurmAccounting(settings, LocalCommand(settings.slurm.command_prefix))


def unix_name(settings: Settings, user: str) -> str:
    """A portal user's Unix account. Raises ``NotAllowed`` if jobs may not run as it."""
    return permitted_user(settings.accounts.map.get(user, user), settings.accounts).name


def job_files(settings: Settings) -> JobFiles:
    """Hands on the jobs' files: the broker's, or those of this process."""
    if settings.broker.socket is not None:
        from aitne.adapters.broker import BrokerFiles

        return BrokerFiles(settings)
    return OwnFiles()


def job_accounts(settings: Settings) -> Accounts:
    """Without a broker everybody's jobs run as the platform's own account."""
    return OwnAccount(settings) if settings.broker.socket is None else UnixAccounts(settings)


def _renderer(settings: Settings) -> Renderer:
    named = os.environ.get("AITNE_SESSION_ENV")
    session_env = None if named is None else Path(named)
    software = own_software()
    if settings.on_slurm:
        folder = SoftwareFolder(settings)
        software, session_env = folder.software(), session_env or folder.session_env
    runtimes = {name: make(session_env) for name, make in RUNTIMES.all().items()}
    return Renderer(settings, runtimes, software)
