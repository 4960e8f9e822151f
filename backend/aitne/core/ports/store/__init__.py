"""Store: all persistent data. One implementation with SQLAlchemy supports SQLite and PostgreSQL.

Each method is one transaction and waits only for the database. Every change of a job adds an event
in the same transaction, and events become visible in the order of their IDs. All methods may raise
``StoreUnavailable``.
"""

from __future__ import annotations

from typing import Protocol

from aitne.core.ports.store.administration import AdministrationStore
from aitne.core.ports.store.alerts import AlertStore
from aitne.core.ports.store.audit import AuditStore
from aitne.core.ports.store.catalog import CatalogStore
from aitne.core.ports.store.cluster import ClusterStore
from aitne.core.ports.store.deletion import DeletionStore
from aitne.core.ports.store.gpus import GpuStore, GpuUse
from aitne.core.ports.store.groups import GroupStore
from aitne.core.ports.store.jobs import JobStore
from aitne.core.ports.store.load import LoadStore, LoadSums, QueuedJobs, WaitSums
from aitne.core.ports.store.notifications import NotificationStore
from aitne.core.ports.store.outside import JobOwner, OutsideStore
from aitne.core.ports.store.preferences import PreferenceStore
from aitne.core.ports.store.projects import ProjectStore
from aitne.core.ports.store.records import (
    Check,
    CreatedJob,
    Idempotency,
    Lease,
    NewJob,
    OutboxItem,
    OutboxKind,
    Page,
    QueuePosition,
    TransitionRequest,
)
from aitne.core.ports.store.sign_ins import SignInStore
from aitne.core.ports.store.snapshots import DocumentKind, SnapshotStore
from aitne.core.ports.store.topology import TopologyStore
from aitne.core.ports.store.user_secrets import UserSecretStore
from aitne.core.ports.store.users import UserStore

__all__ = [
    "AdministrationStore",
    "AlertStore",
    "AuditStore",
    "CatalogStore",
    "Check",
    "ClusterStore",
    "CreatedJob",
    "DeletionStore",
    "DocumentKind",
    "GpuStore",
    "GpuUse",
    "GroupStore",
    "Idempotency",
    "JobOwner",
    "JobStore",
    "Lease",
    "LoadStore",
    "LoadSums",
    "NewJob",
    "NotificationStore",
    "OutboxItem",
    "OutboxKind",
    "OutsideStore",
    "Page",
    "PreferenceStore",
    "ProjectStore",
    "QueuePosition",
    "QueuedJobs",
    "SignInStore",
    "SnapshotStore",
    "Store",
    "TopologyStore",
    "TransitionRequest",
    "UserSecretStore",
    "UserStore",
    "WaitSums",
]


class Store(
    JobStore,
    DeletionStore,
    OutsideStore,
    ClusterStore,
    LoadStore,
    TopologyStore,
    UserStore,
    ProjectStore,
    GroupStore,
    CatalogStore,
    SnapshotStore,
    SignInStore,
    AuditStore,
    AdministrationStore,
    NotificationStore,
    AlertStore,
    GpuStore,
    Protocol,
):
    """Complete store, composed of all its parts."""

    async def start(self) -> None:
        """Open the database and migrate it to the schema of this release.

        Raises ``SetupError`` with instructions if the database is damaged, read-only, full or of a
        newer release, or if SQLite is on a network file system.
        """
        ...

    async def close(self) -> None:
        """Close every connection to the database."""
        ...

    async def ping(self) -> None:
        """Check that the database answers. Raises ``StoreUnavailable``."""
        ...
