"""The platform's store, which combines all parts in this package."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime

from sqlalchemy import text
from typing_extensions import override

from aitne.core.ports.store import Store
from aitne.store.activity import Activity
from aitne.store.administration import SqlAdministration
from aitne.store.alerts import AlertRecords
from aitne.store.array_tasks import ArrayTasks
from aitne.store.audit import AuditTrail
from aitne.store.catalog import Catalog
from aitne.store.cluster import ClusterRecords
from aitne.store.deletion import Deletion
from aitne.store.deliveries import Deliveries
from aitne.store.device_logins import DeviceLogins
from aitne.store.directory import Directory
from aitne.store.engine import Clock, Database
from aitne.store.expiry import Expiry
from aitne.store.factors import Factors
from aitne.store.gpus import GpuSums
from aitne.store.groups import Groups, Invitations
from aitne.store.history import JobHistory
from aitne.store.inspection import SchemaState, integrity_problems, schema_state
from aitne.store.job_changes import JobChangeRequests
from aitne.store.jobs import JobRecords
from aitne.store.load import LoadRecords
from aitne.store.migrate import migrate
from aitne.store.notifications import Inboxes
from aitne.store.outbox import Outbox
from aitne.store.outside import OutsideRecords
from aitne.store.preferences import SqlPreferences
from aitne.store.projects import SqlProjects
from aitne.store.sign_ins import SignIns
from aitne.store.snapshots import Snapshots
from aitne.store.topologies import TopologyRecords
from aitne.store.transitions import Transitions
from aitne.store.urls import parse
from aitne.store.usage import UsageRecords
from aitne.store.user_secrets import UserSecretRecords
from aitne.store.users import Credentials, SqlUsers


def _now() -> datetime:
    return datetime.now(UTC)


class SqlStore(
    JobRecords,
    Transitions,
    JobChangeRequests,
    ArrayTasks,
    Outbox,
    JobHistory,
    Deletion,
    OutsideRecords,
    ClusterRecords,
    LoadRecords,
    TopologyRecords,
    SqlUsers,
    Directory,
    SqlProjects,
    Groups,
    Invitations,
    UsageRecords,
    Credentials,
    SignIns,
    Expiry,
    DeviceLogins,
    Factors,
    Catalog,
    Snapshots,
    AuditTrail,
    SqlAdministration,
    SqlPreferences,
    UserSecretRecords,
    GpuSums,
    AlertRecords,
    Inboxes,
    Deliveries,
    Activity,
    Store,
):
    """Implementation of ``core.ports.store.Store`` on SQLite or PostgreSQL, as ``url`` specifies.

    ``outlived`` means that jobs run on other machines and continue if this one fails. Then on
    SQLite, too, each commit is synchronized to disk before it returns.

    Raises:
        SetupError: ``url`` is the address of neither database.
    """

    def __init__(self, url: str, *, clock: Clock | None = None, outlived: bool = False) -> None:
        self._clock = clock or _now
        # Leases are measured by the database's clock: the clocks of its clients may differ.
        self._by_own_clock = clock is not None
        self._db = Database(parse(url), self._clock, outlived=outlived)

    @override
    async def start(self) -> None:
        await self._db.prepare()
        await migrate(self._db)

    def load_migrations(self) -> None:
        """Load the modules of a migration, which ``start`` otherwise loads if one is necessary."""
        importlib.import_module("alembic.command")

    async def schema_state(self) -> SchemaState:
        """Return the schema of the database, which may be foreign or of another release. Raises
        ``SetupError`` if it is damaged, and ``StoreUnavailable``.
        """
        return await schema_state(self._db)

    async def integrity_problems(self) -> list[str]:
        """Return what is wrong inside the database, as sentences. Raises ``SetupError`` if it cannot
        be read, and ``StoreUnavailable``.
        """
        return await integrity_problems(self._db)

    @override
    async def close(self) -> None:
        """Close every connection. A second call does nothing."""
        await self._db.close()

    @override
    async def ping(self) -> None:
        async with self._db.read() as connection:
            await connection.execute(text("SELECT 1"))
