"""The platform's store, which combines the classes of this package."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime

from sqlalchemy import text

from aitne.store.action_outbox import OutboxStore
from aitne.store.alerts import AlertStore
from aitne.store.announcements_and_maintenance import AdministrationStore
from aitne.store.array_tasks import ArrayTaskStore
from aitne.store.audit import AuditStore
from aitne.store.cluster_load import LoadStore
from aitne.store.credential_expiry import CredentialExpiryStore
from aitne.store.credentials import CredentialStore
from aitne.store.database import Clock, Database
from aitne.store.database_address import parse_address
from aitne.store.database_integrity import SchemaState, find_integrity_problems, read_schema_state
from aitne.store.datasets import DatasetStore
from aitne.store.device_logins import DeviceLoginStore
from aitne.store.ended_job_folders import JobFolderStore
from aitne.store.gpu_counts import GpuStore
from aitne.store.images import ImageStore
from aitne.store.job_change_requests import JobRequestStore
from aitne.store.job_deletion import DeletionStore
from aitne.store.job_snapshots_and_files import SnapshotStore
from aitne.store.job_tokens_and_samples import JobDataStore
from aitne.store.jobs import JobStore
from aitne.store.migrate import migrate_database
from aitne.store.new_jobs import NewJobStore
from aitne.store.nodes_and_leases import ClusterStore
from aitne.store.notifications import NotificationStore
from aitne.store.outside_jobs import OutsideJobStore
from aitne.store.preferences import PreferenceStore
from aitne.store.project_invitations import InvitationStore
from aitne.store.project_life_cycle import ProjectLifeCycleStore
from aitne.store.projects import ProjectStore
from aitne.store.second_factors_and_lockouts import SecondFactorStore
from aitne.store.session_and_gpu_activity import ActivityStore
from aitne.store.sign_ins_and_identities import SignInStore
from aitne.store.topologies import TopologyStore
from aitne.store.transitions import TransitionStore
from aitne.store.usage import UsageStore
from aitne.store.user_project_search import DirectoryStore
from aitne.store.user_secrets import UserSecretStore
from aitne.store.users import UserStore
from aitne.store.webhooks_and_deliveries import DeliveryStore


def _get_current_time() -> datetime:
    return datetime.now(UTC)


class Store(
    NewJobStore,
    JobStore,
    TransitionStore,
    JobRequestStore,
    ArrayTaskStore,
    OutboxStore,
    JobDataStore,
    DeletionStore,
    JobFolderStore,
    OutsideJobStore,
    ClusterStore,
    LoadStore,
    TopologyStore,
    UserStore,
    DirectoryStore,
    ProjectStore,
    ProjectLifeCycleStore,
    InvitationStore,
    UsageStore,
    CredentialStore,
    SignInStore,
    CredentialExpiryStore,
    DeviceLoginStore,
    SecondFactorStore,
    ImageStore,
    DatasetStore,
    SnapshotStore,
    AuditStore,
    AdministrationStore,
    PreferenceStore,
    UserSecretStore,
    GpuStore,
    AlertStore,
    NotificationStore,
    DeliveryStore,
    ActivityStore,
):
    """All persistent data of the platform, in SQLite or PostgreSQL, as ``url`` specifies.

    Each method is one transaction and waits only for the database. Every change of a job adds an
    event in the same transaction, and events become visible in the order of their IDs. All methods
    may raise ``StoreUnavailable``.

    ``outlived`` means that jobs run on other machines and continue if this one fails. Then on
    SQLite, too, each commit is synchronized to disk before it returns.

    Raises:
        SetupError: ``url`` is the address of neither database.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, outlived: bool = False) -> None:
        self._clock = clock or _get_current_time
        # Leases are measured by the database's clock: the clocks of its clients may differ.
        self._by_own_clock = clock is not None
        self._db = Database(parse_address(url), self._clock, outlived=outlived)

    async def start(self) -> None:
        """Open the database and migrate it to the schema of this release.

        Raises ``SetupError`` with instructions if the database is damaged, read-only, full or of a
        newer release, or if SQLite is on a network file system.
        """
        await self._db.prepare()
        await migrate_database(self._db)

    def load_migrations(self) -> None:
        """Load the modules of a migration, which ``start`` otherwise loads if one is necessary."""
        importlib.import_module("alembic.command")

    async def read_schema_state(self) -> SchemaState:
        """Return the schema of the database, which may be foreign or of another release. Raises
        ``SetupError`` if it is damaged, and ``StoreUnavailable``.
        """
        return await read_schema_state(self._db)

    async def find_integrity_problems(self) -> list[str]:
        """Return what is wrong inside the database, as sentences. Raises ``SetupError`` if it cannot
        be read, and ``StoreUnavailable``.
        """
        return await find_integrity_problems(self._db)

    async def close(self) -> None:
        """Close every connection to the database. A second call does nothing."""
        await self._db.close()

    async def ping(self) -> None:
        """Check that the database answers. Raises ``StoreUnavailable``."""
        async with self._db.read() as connection:
            await connection.execute(text("SELECT 1"))
