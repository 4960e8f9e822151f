"""Tables of announcements, maintenance, alerts, and the history of nodes and of the cluster's load."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from aitne.core.models.cluster_load_history import LOAD_VALUES
from aitne.store.column_types import BigId, Prose, UserName, UtcDateTime
from aitne.store.tables import metadata

announcements = Table(
    "announcements",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("severity", String(10), nullable=False),
    Column("text", Prose, nullable=False),
    # Empty: for all users.
    Column("projects", JSON, nullable=False),
    Column("starts_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", UserName, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

dismissals = Table(
    "dismissals",
    metadata,
    Column(
        "announcement",
        String(32),
        ForeignKey("announcements.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("user_name", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
)

# One maintenance window at a time: the current or the next one.
maintenance = Table(
    "maintenance",
    metadata,
    Column("cluster", String(40), primary_key=True),
    Column("starts_at", UtcDateTime, nullable=False),
    Column("ends_at", UtcDateTime),
    Column("message", Prose, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", UserName, nullable=False),
)

# Alerts of the monitoring, as they were last received.
alerts = Table(
    "alerts",
    metadata,
    Column("fingerprint", String(64), primary_key=True),
    Column("status", String(10), nullable=False),
    Column("name", Prose, nullable=False),
    Column("severity", String(20), nullable=False),
    Column("summary", Prose, nullable=False),
    Column("description", Prose, nullable=False),
    Column("runbook_url", Prose),
    Column("starts_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Index("ix_alerts_status", "status"),
)

node_history = Table(
    "node_history",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("cluster", String(40), nullable=False),
    Column("node", Text, nullable=False),
    Column("time", UtcDateTime, nullable=False, index=True),
    # A state, or the action of an administrator.
    Column("what", String(20), nullable=False),
    Column("reason", Prose),
    Column("actor", UserName),
    Index("ix_node_history_node", "node", "id"),
)

# Sums of the samples of an interval: divided by their number, the means.
cluster_load = Table(
    "cluster_load",
    metadata,
    Column("time", UtcDateTime, primary_key=True),
    Column("samples", Integer, nullable=False),
    *(Column(name, Float, nullable=False) for name in LOAD_VALUES),
)

partition_load = Table(
    "partition_load",
    metadata,
    Column("partition", Text, primary_key=True),
    Column("time", UtcDateTime, primary_key=True),
    Column("samples", Integer, nullable=False),
    *(Column(name, Float, nullable=False) for name in LOAD_VALUES),
    sqlite_with_rowid=False,
)

# What each source says about the topology of the cluster.
topologies = Table(
    "topologies",
    metadata,
    Column("origin", String(10), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("content", JSON(none_as_null=True)),
    Column("problem", Prose),
    Column("read_at", UtcDateTime, nullable=False),
    Column("version", BigId, nullable=False),
    Index("ix_topologies_version", "version"),
)
