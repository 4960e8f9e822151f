"""The platform's store, which combines all parts in this package."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime

from sqlalchemy import text
from typing_extensions import override

from aitne.adapters.store.activity import Activity
from aitne.adapters.store.administration import SqlAdministration
from aitne.adapters.store.alerts import AlertRecords
from aitne.adapters.store.array_tasks import ArrayTasks
from aitne.adapters.store.audit import AuditTrail
from aitne.adapters.store.catalog import Catalog
from aitne.adapters.store.cluster import ClusterRecords
from aitne.adapters.store.deletion import Deletion
from aitne.adapters.store.deliveries import Deliveries
from aitne.adapters.store.device_logins import DeviceLogins
from aitne.adapters.store.directory import Directory
from aitne.adapters.store.engine import Clock, Database
from aitne.adapters.store.expiry import Expiry
from aitne.adapters.store.factors import Factors
from aitne.adapters.store.gpus import GpuSums
from aitne.adapters.store.groups import Groups, Invitations
from aitne.adapters.store.history import JobHistory
from aitne.adapters.store.inspection import SchemaState, integrity_problems, schema_state
from aitne.adapters.store.job_changes import JobChangeRequests
from aitne.adapters.store.jobs import JobRecords
from aitne.adapters.store.load import LoadRecords
from aitne.adapters.store.migrate import migrate
from aitne.adapters.store.notifications import Inboxes
from aitne.adapters.store.outbox import Outbox
from aitne.adapters.store.outside import OutsideRecords
from aitne.adapters.store.preferences import SqlPreferences
from aitne.adapters.store.projects import SqlProjects
from aitne.adapters.store.sign_ins import SignIns
from aitne.adapters.store.snapshots import Snapshots
from aitne.adapters.store.topologies import TopologyRecords
from aitne.adapters.store.transitions import Transitions
from aitne.adapters.store.urls import parse
from aitne.adapters.store.usage import UsageRecords
from aitne.adapters.store.user_secrets import UserSecretRecords
from aitne.adapters.store.users import Credentials, SqlUsers
from aitne.core.ports.store import Store


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
