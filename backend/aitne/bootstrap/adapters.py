"""Creation of the adapters that the settings name.

Nothing is opened or connected by these functions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from aitne.adapters.command.local import LocalCommand
from aitne.adapters.job_files import OwnFiles
from aitne.adapters.node_software_folder import SoftwareFolder
from aitne.adapters.own_account_files import OwnAccountFiles
from aitne.adapters.schedulers._slurm.slurm_config import config_values
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.adapters.unix_account_mapping import OwnAccount, UnixAccounts, user_account
from aitne.adapters.user_folder_operations import BrokerUserFolders, OwnUserFolders
from aitne.core.models.limits import LimitsApplied
from aitne.core.platform.plugin_registry import Registry
from aitne.core.ports.account_files import AccountFiles
from aitne.core.ports.accounting import Accounting
from aitne.core.ports.attacher import Attacher
from aitne.core.ports.channel import Channel
from aitne.core.ports.command import Command
from aitne.core.ports.identity_source import IdentitySource
from aitne.core.ports.job_files import JobFiles
from aitne.core.ports.outside_jobs import OutsideJobs, OutsideScheduler
from aitne.core.ports.runtime import Runtime
from aitne.core.ports.scheduler import SCHEDULERS, Scheduler
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.ports.storage_system import Storage, UserFolders
from aitne.core.ports.unix_account_mapping import Accounts
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import StorageSettings
from aitne.services.platform.secret_file_inventory import SecretFiles
from aitne.store import Store

RUNTIMES: Registry[Runtime] = Registry("runtime", "aitne.adapters.runtimes", "aitne.runtimes")
IDENTITIES: Registry[IdentitySource] = Registry(
    "source of logins", "aitne.adapters.identity", "aitne.identity"
)
STORAGES: Registry[Storage] = Registry("storage adapter", "aitne.adapters.storage", "aitne.storage")
CHANNELS: Registry[Channel] = Registry("channel", "aitne.adapters.channels", "aitne.channels")


def utc_now() -> datetime:
    """Return the current time in UTC, which all processes use as their clock."""
    return datetime.now(UTC)


def make_scheduler(settings: Settings) -> Scheduler:
    """Create the scheduler adapter that the settings name; if a broker is configured, create the
    broker's client instead.

    Raises:
        SetupError: no scheduler has that name.
    """
    if settings.broker.socket is not None:
        from aitne.adapters.broker_scheduler import BrokerScheduler

        return BrokerScheduler(settings)
    make = SCHEDULERS.get(settings.scheduler)
    return make(settings, Tools(LocalCommand(settings.slurm.command_prefix), OwnFiles()))


def make_store(settings: Settings) -> Store:
    """Create the store, without opening it.

    Raises:
        SetupError: there is no such scheduler, or the database address is invalid.
    """
    return Store(settings.database_url, outlived=settings.capabilities.remote)


def make_shared_scheduler(settings: Settings) -> Scheduler | None:
    """Return a scheduler adapter for a process other than the controller; None if only the
    controller may use this scheduler.
    """
    if not settings.capabilities.shared:
        return None
    return make_scheduler(settings)


def make_scheduler_attacher(scheduler: object, settings: Settings, tools: Tools) -> Attacher | None:
    """Return the attacher of a scheduler or scheduler class, which starts programs in the
    allocations of running jobs.

    None means that the scheduler does not support this.
    """
    make: Callable[[Settings, Tools], Attacher] | None = getattr(scheduler, "attacher", None)
    return None if make is None else make(settings, tools)


def make_attacher(settings: Settings) -> Attacher | None:
    """Create the scheduler's attacher, which starts programs in the allocations of running jobs;
    with a broker, the broker's. None means that the scheduler does not support this.

    Raises:
        SetupError: there is no such scheduler.
    """
    if settings.broker.socket is not None:
        from aitne.adapters.broker_attacher import BrokerAttacher

        return BrokerAttacher(settings)
    tools = Tools(LocalCommand(settings.slurm.command_prefix), OwnFiles())
    return make_scheduler_attacher(SCHEDULERS.get(settings.scheduler), settings, tools)


def make_secret_files(settings: Settings) -> SecretFiles:
    """Return the files with secrets on this machine: the platform's and, with Slurm, Slurm's."""
    if not settings.capabilities.remote:
        return SecretFiles(settings, None)
    site = Site(settings, LocalCommand(settings.slurm.command_prefix))

    async def config() -> dict[str, str]:
        return dict(config_values(await site.run_query("scontrol", "show", "config")))

    return SecretFiles(settings, config)


def make_scheduler_outside_jobs(
    scheduler: object, settings: Settings, tools: Tools
) -> OutsideScheduler | None:
    """Return the scheduler's access to jobs that were not submitted through the platform; None if
    it does not support this.
    """
    make: Callable[[Settings, Tools], OutsideScheduler] | None = getattr(scheduler, "outside", None)
    return None if make is None else make(settings, tools)


def make_outside_jobs(settings: Settings) -> OutsideJobs | None:
    """Create the access to jobs that were not submitted through the platform: the scheduler's or,
    with a broker, the broker's.

    None means that the scheduler does not support this.

    Raises:
        SetupError: there is no such scheduler.
    """
    tools = Tools(LocalCommand(settings.slurm.command_prefix), OwnFiles())
    outside = make_scheduler_outside_jobs(SCHEDULERS.get(settings.scheduler), settings, tools)
    if settings.broker.socket is None or outside is None:
        return outside
    from aitne.adapters.broker_outside_jobs import BrokerOutside

    return BrokerOutside(settings)


def make_channels(settings: Settings) -> dict[str, Channel]:
    """Create all notification channels, by name, including those that the site does not use."""
    return {name: make(settings) for name, make in CHANNELS.all().items()}


def list_available_channels(settings: Settings) -> tuple[str, ...]:
    """Return the names of the notification channels that the site has configured."""
    channels = make_channels(settings).items()
    return tuple(name for name, channel in channels if channel.is_available)


def make_scheduler_accounting(
    scheduler: object, settings: Settings, command: Command
) -> Accounting | None:
    """Return the accounting adapter of a scheduler or scheduler class; None if it has none."""
    make: Callable[[Settings, Command], Accounting] | None = getattr(scheduler, "accounting", None)
    return None if make is None else make(settings, command)


def limits_applied(settings: Settings) -> LimitsApplied:
    """Return when changed limits of projects and members take effect in the scheduler."""
    if settings.capabilities.limits:
        return LimitsApplied.AT_ONCE
    if getattr(SCHEDULERS.get(settings.scheduler), "accounting", None) is not None:
        return LimitsApplied.AFTER_SYNC
    return LimitsApplied.NEVER


def make_accounting(settings: Settings) -> Accounting | None:
    """Create the scheduler's accounting adapter or, with a broker, the broker's.

    None means that the scheduler has no accounting.
    """
    accounting = make_scheduler_accounting(
        SCHEDULERS.get(settings.scheduler), settings, LocalCommand(settings.slurm.command_prefix)
    )
    if settings.broker.socket is None or accounting is None:
        return accounting
    from aitne.adapters.accounting.broker import BrokerAccounting

    return BrokerAccounting(settings)


def get_unix_account_name(settings: Settings, user: str) -> str:
    """Return the Unix account of a portal user.

    Raises ``NotAllowed`` if jobs may not run under it.
    """
    return user_account(user, settings.accounts).name


def make_job_files(settings: Settings) -> JobFiles:
    """Create the access to job files: through the broker process if there is one, otherwise
    directly in the calling process.
    """
    if settings.broker.socket is not None:
        from aitne.adapters.broker_scheduler import BrokerFiles

        return BrokerFiles(settings)
    return OwnFiles()


def make_account_files(settings: Settings) -> AccountFiles:
    """Create the access to files of users: through the broker process if there is one, otherwise
    directly in the calling process.
    """
    if settings.broker.socket is not None:
        from aitne.adapters.broker_account_files import BrokerAccountFiles

        return BrokerAccountFiles(settings)
    return OwnAccountFiles()


def make_accounts(settings: Settings) -> Accounts:
    """Create the mapping of portal users to Unix accounts. Without a broker all jobs run under the
    platform's own account.
    """
    return OwnAccount(settings) if settings.broker.socket is None else UnixAccounts(settings)


def make_storages(settings: StorageSettings) -> dict[str, Storage]:
    """Create the storage adapters that the settings name, by name.

    Raises ``SetupError`` for an unknown name.
    """
    names = {settings.home, *(area.storage for area in settings.areas)}
    return {name: STORAGES.get(name)() for name in sorted(names)}


def make_identity_sources(
    settings: Settings, clock: Callable[[], datetime]
) -> list[IdentitySource]:
    """Create the identity sources in the order in which the settings list them.

    Raises:
        SetupError: a name is unknown, or a package that its source needs is not installed.
    """
    return [IDENTITIES.get(name)(settings, clock) for name in settings.auth.sources]


def make_user_folders(settings: Settings) -> UserFolders:
    """Create the access to users' storage areas and paths, through the broker or under the
    process's own account.

    Raises:
        SetupError: the settings name a storage adapter that does not exist.
    """
    if settings.broker.socket is not None:
        return BrokerUserFolders(settings)
    return OwnUserFolders(settings.storage, make_storages(settings.storage))


def make_runtimes(settings: Settings) -> dict[str, Runtime]:
    """Create all container runtimes, by name."""
    named = os.environ.get("AITNE_SESSION_ENV")
    session_env = None if named is None else Path(named)
    if not settings.capabilities.trusts_agents:
        session_env = session_env or SoftwareFolder(settings).session_env
    return {name: make(settings, session_env) for name, make in RUNTIMES.all().items()}
