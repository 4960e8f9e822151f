"""Settings of the platform, which ``local_system.settings_loader`` loads.

The environment variable ``AITNE_LOCAL__CPUS=8`` sets ``cpus`` in the section ``[local]``. The
reference page is generated from this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.models.base import LARGEST_UID, MemoryBytes, Seconds, Strict, UserName
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.notifications.settings import IdleSettings, MailSettings, WebhookSettings
from aitne.core.platform.backup_settings import BackupSettings
from aitne.core.platform.broker_folder import broker_dir
from aitne.core.platform.tls_settings import TlsSettings
from aitne.core.ports.scheduler import SchedulerCapabilities, get_scheduler_capabilities
from aitne.core.projects.settings import ProjectSettings
from aitne.core.retention import RetentionSettings
from aitne.core.sessions.host_names import WILDCARD, check_wildcard_url
from aitne.core.storage.storage_and_container_settings import (
    ContainerSettings,
    StorageSettings,
    TreeSettings,
)
from aitne.core.users.auth_settings import AuditSettings, AuthSettings, RateSettings


class LocalSettings(Strict):
    """The embedded scheduler, which runs jobs on this machine."""

    nodes: int = Field(1, ge=1, le=64, description="Number of nodes that this machine simulates.")
    cpus: int | None = Field(
        None, ge=1, description="CPU slots of each node; unset: this machine's CPUs."
    )
    memory: MemoryBytes | None = Field(
        None, description="Memory of each node, such as 16G; unset: this machine's memory."
    )
    gpus: str = Field(
        "auto",
        description="GPUs of each node: auto (as NVML reports), none, or declared such as a100:4.",
    )


class BrokerClientSettings(Strict):
    """The privileged process that acts as users."""

    socket: Path | None = Field(
        None,
        description="Socket of the broker; unset: everything runs as the platform's own account.",
    )


class AccountSettings(Strict):
    """The Unix accounts that the jobs of users run as."""

    mode: Literal["shared", "own"] = Field(
        "shared",
        description='With `scheduler = "local"`: `shared` runs the jobs of all users as the account that '
        "started the platform, `own` each user's jobs as the Unix account of the user; for this "
        "`aitne up` is started as root.",
    )
    platform: str = Field(
        "aitne",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$",
        description='Unix account that the platform\'s own processes run as with `mode = "own"`.',
    )
    map: dict[UserName, UserName] = Field(
        default_factory=dict,
        description="User to account, where the names differ (with a broker or mode own). No two "
        "users have the same account.",
    )
    min_uid: int = Field(
        1_000, ge=1, le=LARGEST_UID, description="Lowest uid of an account that jobs may run as."
    )
    max_uid: int = Field(
        60_000, le=LARGEST_UID, description="Highest uid of an account that jobs may run as."
    )
    groups: list[str] = Field(
        default_factory=list,
        description="Groups whose accounts jobs may run as; empty: all accounts.",
    )

    @field_validator("map")
    @classmethod
    def _one_to_one(cls, value: dict[str, str]) -> dict[str, str]:
        accounts: dict[str, str] = {}
        for user, account in value.items():
            other = accounts.setdefault(account, user)
            if other != user:
                raise ValueError(
                    f"it gives the Unix account {account} to {other} and to {user}: each user has an "
                    "account of their own"
                )
        return value


class LimitSettings(Strict):
    """Limits that apply to every single job, in addition to the limits of its template and of the
    nodes.
    """

    max_duration: Seconds = Field(7 * 86_400, description="Longest time limit of a job.")
    max_nodes: int | None = Field(
        None,
        ge=1,
        description="Maximum number of nodes of a job; unset: only the scheduler's limits apply.",
    )
    max_array_tasks: int | None = Field(
        None,
        ge=1,
        description="Maximum number of tasks of an array job; unset: Slurm's MaxArraySize, and 1000 "
        "with the embedded scheduler.",
    )
    max_result: MemoryBytes = Field(
        256 << 20,
        description="Maximum size of what a submitted function returns, such as 256M.",
    )
    max_live_jobs: int | None = Field(
        None,
        ge=1,
        description="Maximum number of jobs and array tasks of a user that wait or run; unset: "
        "Slurm's MaxJobCount and MaxArraySize together, beside the limits of the user's association, "
        "and 2000 with the embedded scheduler.",
    )


class TopologySettings(Strict):
    """The network between the nodes and what the nodes consist of, by which the platform places jobs."""

    sources: list[TopologyOrigin] = Field(
        list(TopologyOrigin),
        max_length=len(TopologyOrigin),
        description="Sources of the topology, the first one first: `import` (`aitne admin topology "
        "import`), `file`, `scheduler`, and `nodes` (what jobs report about their nodes), which only adds to the "
        "others wherever it is named. A source that contradicts an earlier one is not used, and health "
        "names it.",
    )
    file: Path | None = Field(
        None,
        description="A topology.conf, topology.yaml or another file that `aitne topology show` can "
        "read; the controller reads it again when it changes.",
    )


class Settings(Strict):
    """Everything that can be set. ``local_system.settings_loader.load_settings`` reads it."""

    data_dir: Path = Field(
        Path("~/.local/share/aitne"),
        description="Folder with all state of this platform. Not in the file: `--data-dir` or "
        "the variable.",
    )
    cluster: str = Field(
        "local", pattern=r"^[a-z][a-z0-9-]{0,39}$", description="The cluster's name."
    )
    title: str = Field("Aitne", max_length=60, description="The name that the portal shows.")
    documentation_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = Field(
        None,
        max_length=2_000,
        description="The site's documentation for users, linked from the portal; unset: no link.",
    )
    bind: str = Field(
        "127.0.0.1", description="The address on which the portal and the sessions listen."
    )
    port: int = Field(8_000, ge=1, le=65_531, description="The portal's port.")
    sessions_port: int | None = Field(
        None, description="The port of the sessions' own origin; unset: port + 1."
    )
    hub_port: int | None = Field(None, description="JupyterHub, loopback only; unset: port + 2.")
    proxy_api_port: int | None = Field(
        None, description="The proxy's own interface, loopback only; unset: port + 3."
    )
    internal_port: int | None = Field(
        None,
        description="The portal without TLS, loopback only, for processes of this machine; used with "
        "`tls.enabled`; unset: port + 4.",
    )
    public_url: str | None = Field(
        None,
        description="URL by which browsers reach the portal; unset: `http(s)://<bind>:<port>`.",
    )
    proxy_socket: Path | None = Field(
        None,
        description="A UNIX socket on which the portal listens too, for a reverse proxy on this "
        "machine: client addresses that a proxy names are trusted only there.",
    )
    sessions_url: str | None = Field(
        None,
        description="URL by which browsers reach sessions, of another origin than the portal's. "
        "With `https://*.HOST` each user has a separate host.",
    )
    database: str | None = Field(
        None, description="`postgresql://…`; unset: SQLite in the data directory."
    )
    scheduler: str = Field("local", description="The scheduler adapter.")
    trusted_users: bool = Field(
        False,
        description="Permit more than one user where all jobs run as the platform's own account on this "
        'machine (`scheduler = "local"`): a job can read the platform\'s secrets and all files of that '
        "account. `aitne up --trusted-users` sets it too.",
    )
    poll_interval_s: float = Field(
        2.0, ge=0.1, le=60, description="Seconds between two queries of the scheduler."
    )
    templates: list[Path] = Field(
        default_factory=list,
        description="Further folders of job templates, beside the built-in one.",
    )
    tls: TlsSettings = TlsSettings()
    local: LocalSettings = LocalSettings()
    slurm: SlurmSettings = SlurmSettings()
    topology: TopologySettings = TopologySettings()
    broker: BrokerClientSettings = BrokerClientSettings()
    accounts: AccountSettings = AccountSettings()
    containers: ContainerSettings = ContainerSettings()
    storage: StorageSettings = StorageSettings()
    trees: TreeSettings = TreeSettings()
    limits: LimitSettings = LimitSettings()
    projects: ProjectSettings = ProjectSettings()
    retention: RetentionSettings = RetentionSettings()
    auth: AuthSettings = AuthSettings()
    mail: MailSettings = MailSettings()
    webhooks: WebhookSettings = WebhookSettings()
    idle: IdleSettings = IdleSettings()
    rates: RateSettings = RateSettings()
    audit: AuditSettings = AuditSettings()
    backup: BackupSettings = BackupSettings()

    @model_validator(mode="after")
    def _two_origins(self) -> Self:
        if self.sessions_origin == self.portal_url:
            raise ValueError("sessions need an origin of their own: sessions_url equals public_url")
        check_wildcard_url(self.sessions_base, self.portal_url)
        return self

    @model_validator(mode="after")
    def _no_plain_addresses(self) -> Self:
        if self.tls.enabled:
            for name, url in (
                ("public_url", self.public_url),
                ("sessions_url", self.sessions_url),
                ("slurm.portal_address", self.slurm.portal_address),
                ("slurm.sessions_address", self.slurm.sessions_address),
            ):
                if url is not None and not url.startswith("https://"):
                    raise ValueError(
                        f"{name} must begin with https://: tls.enabled closes plain HTTP"
                    )
        return self

    @property
    def capabilities(self) -> SchedulerCapabilities:
        """Capabilities of the scheduler. With a broker two more apply: jobs run as the Unix
        accounts of their users, and several processes may use the scheduler at once.

        Raises ``SetupError`` if there is no scheduler of the configured name.
        """
        own = get_scheduler_capabilities(self.scheduler)
        if self.broker.socket is None:
            return own
        return own.model_copy(update={"runs_as_users": True, "shared": True})

    @property
    def _scheme(self) -> str:
        return "https" if self.tls.enabled else "http"

    @property
    def own_url(self) -> str:
        """URL of the portal at the address on which the API listens."""
        return f"{self._scheme}://{_format_url_host(self.bind)}:{self.port}"

    @property
    def portal_url(self) -> str:
        """Origin of the portal in browsers, without a trailing slash."""
        return (self.public_url or self.own_url).rstrip("/")

    @property
    def sessions_base(self) -> str:
        """Value of ``sessions_url`` or its default, without a trailing slash; ``*.`` stands for the
        host name of the user.
        """
        default = f"{self._scheme}://{_format_url_host(self.bind)}:{self.port_of_sessions}"
        return (self.sessions_url or default).rstrip("/")

    @property
    def has_user_domains(self) -> bool:
        """True if the sessions of each user have their own host name, and so their own origin."""
        return WILDCARD in self.sessions_base

    @property
    def sessions_origin(self) -> str:
        """Origin of JupyterHub's URL in browsers, without a trailing slash. All sessions have the
        same origin, unless each user has a host name.
        """
        return self.sessions_base.replace(WILDCARD, "", 1)

    @property
    def sessions_address(self) -> str | None:
        """Address ``host:port`` to connect to because names below ``localhost`` may not be
        resolved; None if the URL already contains the address.
        """
        if not self.has_user_domains or self.sessions_base.startswith("https:"):
            return None
        return f"{_format_url_host(self.bind)}:{self.port_of_sessions}"

    @property
    def internal_url(self) -> str:
        """URL at which processes on this machine reach the API."""
        if self.tls.enabled:
            return f"http://127.0.0.1:{self.port_of_internal}"
        return self.own_url

    @property
    def agents_url(self) -> str:
        """URL at which the agents of jobs reach the API."""
        if not self.capabilities.remote:
            return self.internal_url
        return (self.slurm.portal_address or self.portal_url).rstrip("/")

    @property
    def session_listen_address(self) -> str:
        """Listening address of sessions, in the form of ``AgentSpec.listen``."""
        return self.slurm.agent_host if self.capabilities.remote else "127.0.0.1"

    @property
    def hub_connect_url(self) -> str | None:
        """URL at which single-user servers on nodes reach JupyterHub through its public proxy;
        None: they use JupyterHub's own port.
        """
        if not self.capabilities.remote:
            return None
        return (self.slurm.sessions_address or self.sessions_origin).rstrip("/")

    @property
    def port_of_sessions(self) -> int:
        """Public port of the proxy, at which browsers open sessions."""
        return self.sessions_port or self.port + 1

    @property
    def port_of_hub(self) -> int:
        """Port of JupyterHub itself, on the loopback interface."""
        return self.hub_port or self.port + 2

    @property
    def port_of_proxy_api(self) -> int:
        """Port of the proxy's control API, on the loopback interface."""
        return self.proxy_api_port or self.port + 3

    @property
    def port_of_internal(self) -> int:
        """Port of the portal without TLS, on the loopback interface."""
        return self.internal_port or self.port + 4

    @property
    def database_url(self) -> str:
        """URL of the database in the form of SQLAlchemy, but without a driver."""
        return self.database or f"sqlite:///{self.data_dir / 'aitne.db'}"

    @property
    def run_dir(self) -> Path:
        """Folder for sockets, pid files and port numbers of the running platform."""
        return self.data_dir / "run"

    @property
    def uses_user_accounts(self) -> bool:
        """True if the embedded scheduler runs each user's jobs under that user's own Unix
        account.
        """
        return self.accounts.mode == "own"

    @property
    def broker_dir(self) -> Path:
        """Folder, owned by root, for the broker that ``aitne up`` starts."""
        return broker_dir(self.data_dir)

    @property
    def notes_file(self) -> Path:
        """File with the notes that the scheduler returned when the controller started, one sentence
        per line.
        """
        return self.run_dir / "notes"

    @property
    def secrets_dir(self) -> Path:
        """Folder with one file for each secret of the platform, mode 0600."""
        return self.data_dir / "secrets"

    @property
    def tls_dir(self) -> Path:
        """Folder with the certificates of the platform's CA and those that it has issued; the keys
        are in ``secrets_dir``.
        """
        return self.data_dir / "tls"

    @property
    def images_dir(self) -> Path:
        """Folder of the image files, with the same path on all nodes."""
        if self.containers.images_dir is not None:
            return self.containers.images_dir
        software = self.slurm.software_dir
        return self.data_dir / "images" if software is None else software.parent / "images"

    @property
    def manifests_dir(self) -> Path:
        """Folder with one file for each dataset manifest, named after its digest."""
        return self.data_dir / "manifests"

    @property
    def trees_dir(self) -> Path:
        """Folder with a folder for each user, which contains the trees that the user has
        uploaded.
        """
        return self.data_dir / "trees"

    @property
    def spare_jobs_dir(self) -> str | None:
        """Pattern of the folder of a session's files where no space is left in ``slurm.jobs_dir``;
        None: there is none.
        """
        here = "/var/tmp/aitne-{user}" if self.uses_user_accounts else None  # noqa: S108 - the owner is checked
        return self.slurm.spare_jobs_dir or here

    @property
    def jobs_dir(self) -> Path:
        """Folder with a folder for each job, which contains a folder for each attempt."""
        return self.data_dir / "jobs"


def _format_url_host(bind: str) -> str:
    if bind in ("0.0.0.0", "", "::"):  # noqa: S104 - every address: then loopback reaches it
        return "127.0.0.1"
    return f"[{bind}]" if ":" in bind else bind
