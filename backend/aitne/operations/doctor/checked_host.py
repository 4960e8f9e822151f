"""Knowledge that the checks share: the settings, the supervisor's answer, and systems that several checks ask."""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401 - for names in DNS: the account of the platform may not read Python
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aitne.adapters.broker_scheduler import BrokerClient
from aitne.adapters.command.local import LocalCommand
from aitne.adapters.local_probes import LocalProbes
from aitne.adapters.schedulers._slurm.slurm_config import config_values
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.bootstrap.adapters import make_store, utc_now
from aitne.client.platform_discovery import ask_supervisor
from aitne.core.broker.protocol_versions import Welcome
from aitne.core.errors import SetupError
from aitne.core.models.cluster import Cluster
from aitne.core.models.health import HealthState
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from aitne.operations.doctor.root_files import RootFiles, read_variables_of_last_start
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_unknown_finding,
    make_warning_finding,
)
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.services.jobs.template_catalog import TemplateCatalog, builtin_folder
from aitne.services.monitoring.health_checks import HealthChecks
from aitne.services.monitoring.platform_file_checks import FileChecks
from aitne.services.platform.certificate_authorities import authority_file
from aitne.services.platform.event_hub import EventHub
from aitne.services.platform.presented_certificates import PresentedCertificates
from aitne.services.platform.secret_file_inventory import SecretFiles
from aitne.store import Store

_T = TypeVar("_T")
_STATES = {
    HealthState.DEGRADED: make_warning_finding,
    HealthState.DOWN: make_failed_finding,
}
_IN_DATABASE = frozenset(
    {"database", "controller", "scheduler", "nodes", "queue", "isolation", "topology"}
)
"""Names of the health checks that read the database."""


@dataclass(slots=True)
class CheckedHost:
    """The platform and its host, as the checks see them. Nothing is asked before a check needs it."""

    settings: Settings
    status: dict[str, Any] | None
    """Answer of the supervisor; None: the platform is not running."""
    job_user: str | None = None
    """User for whom jobs are submitted that check the nodes; None: none are."""
    root_files: RootFiles | None = None
    """What root has read; None: the command was not started as root."""
    _shared: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    _store: Store | None = None

    @property
    def is_running(self) -> bool:
        """True if the supervisor answers."""
        return self.status is not None

    def check_database(self) -> None:
        """Raise ``SetupError`` if SQLite's file does not exist: a connection would create it."""
        path = self.settings.data_dir / "aitne.db"
        if self.settings.database is None and not path.is_file():
            raise SetupError(f"There is no database {path} yet; the first `aitne up` creates it.")

    @property
    def store(self) -> Store:
        """The platform's database, which is neither created nor migrated.

        Raises:
            SetupError: there is none yet.
        """
        self.check_database()
        return self._unchecked_store

    @property
    def _unchecked_store(self) -> Store:
        if self._store is None:
            self._store = make_store(self.settings)
        return self._store

    @property
    def has_slurm(self) -> bool:
        """True if the scheduler is Slurm."""
        return self.settings.capabilities.remote

    def make_slurm_site(self) -> Site:
        """Return an object that queries Slurm with its commands, under this process's account."""
        return Site(self.settings, LocalCommand(self.settings.slurm.command_prefix))

    def make_trust_context(self) -> ssl.SSLContext:
        """Return what clients of the platform trust: the system's CAs, and the platform's own, which
        issues the certificates of a reverse proxy, too.
        """
        context = ssl.create_default_context()
        own = authority_file(self.settings)
        if own.is_file():
            context.load_verify_locations(own)
        return context

    async def query_once(self, name: str, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return the answer of ``ask``, which is asked once for all checks that use this name."""
        if name not in self._shared:

            async def once() -> _T:
                return await ask()

            self._shared[name] = asyncio.create_task(once())
        answer: _T = await asyncio.shield(self._shared[name])
        return answer

    async def slurm_config(self) -> str:
        """Return the output of ``scontrol show config``. Raises ``SchedulerUnavailable``."""
        return await self.query_once(
            "config", lambda: self.make_slurm_site().run_query("scontrol", "show", "config")
        )

    async def cluster(self) -> Cluster:
        """Return the nodes and partitions that the controller stored last."""
        return await self.query_once("cluster", self.store.get_cluster)

    async def query_broker(self) -> Welcome:
        """Return what the broker says about itself. Raises ``Unavailable``."""

        async def ask() -> Welcome:
            client = BrokerClient(self.settings)
            try:
                return await client.read_welcome()
            finally:
                await client.close()

        return await self.query_once("broker", ask)

    async def check_health(self, name: str) -> Finding:
        """Return the finding of a check of the portal's health page, executed in this process."""
        if name in _IN_DATABASE:
            self.check_database()
        function = self._make_health_checks().all().get(name)
        if function is None:
            return make_skipped_finding("This platform has none.")
        result = await function()
        if result.state is HealthState.OK:
            return make_ok_finding(result.says)
        if result.state is HealthState.UNKNOWN:
            return make_unknown_finding(result.says, result.advice)
        return _STATES[result.state](result.says, result.advice or "See `aitne admin health`.")

    def _make_health_checks(self) -> HealthChecks:
        settings, store = self.settings, self._unchecked_store
        cluster = ClusterService(store, None, settings, utc_now)
        probes = LocalProbes()
        return HealthChecks(
            store,
            settings,
            probes,
            cluster,
            EventHub(store),
            utc_now,
            ClusterTopologies(store, cluster, settings.topology),
            PresentedCertificates(settings, probes),
            FileChecks(
                settings,
                TemplateCatalog([builtin_folder(), *settings.templates]),
                utc_now,
                self.secret_files(),
            ),
        )

    def secret_files(self) -> SecretFiles:
        """Return the files with secrets of the platform, of Slurm and of the broker."""

        async def config() -> dict[str, str]:
            return dict(config_values(await self.slurm_config()))

        brokers = self.root_files.brokers.values() if self.root_files is not None else ()
        keys = [broker.slurm.jwt_key for broker in brokers if not isinstance(broker, str)]
        more = [key for key in keys if key is not None]
        return SecretFiles(self.settings, config if self.has_slurm else None, more)

    async def close(self) -> None:
        """End what is still asked, and close the connections to the database."""
        for task in self._shared.values():
            task.cancel()
        if self._shared:
            await asyncio.wait(self._shared.values())
        if self._store is not None:
            await self._store.close()


def open_host(
    data_dir: Path, job_user: str | None = None, root_files: RootFiles | None = None
) -> CheckedHost:
    """Return the host of the platform in ``data_dir``, running or not. The settings are those of the
    running platform, or of its last start; this process's variables take precedence over the latter.

    Raises:
        SetupError: the settings cannot be loaded.
        NotAllowed: another account started the platform.
    """
    status = ask_supervisor(str(data_dir), "status")
    if status is not None:
        # Options and variables of `aitne up` are not stored in a file.
        stored = (ask_supervisor(str(data_dir), "settings") or {}).get("settings", {})
        os.environ.update({name: text for name, text in stored.items() if name[:6] == "AITNE_"})
    else:
        of_root = root_files.variables if root_files is not None else {}
        for name, text in (of_root or read_variables_of_last_start(data_dir / "run")).items():
            os.environ.setdefault(name, text)
    return CheckedHost(load_settings(data_dir), status, job_user, root_files)
