"""Tables of notifications, of their deliveries, and of the activity of sessions."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

from aitne.store.column_types import BigId, Prose, UserName, UtcDateTime
from aitne.store.tables import metadata


def _make_owner_column() -> Column[str]:
    return Column("owner", UserName, ForeignKey("users.name", ondelete="CASCADE"), nullable=False)


# Position of each reader of the event log, updated in the transaction that writes its results.
cursors = Table(
    "cursors",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("event_id", BigInteger, nullable=False),
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", BigId, primary_key=True),
    _make_owner_column(),
    Column("event_id", BigInteger, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("level", String(10), nullable=False),
    Column("title", Prose, nullable=False),
    Column("text", Prose, nullable=False),
    Column("job_id", Uuid),
    Column("path", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("read_at", UtcDateTime),
    # A user receives one notification of an event, however often the event log is read.
    UniqueConstraint("owner", "event_id"),
    Index("ix_notifications_owner", "owner", "id"),
    sqlite_autoincrement=True,
)

notification_settings = Table(
    "notification_settings",
    metadata,
    Column("user_name", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("data", JSON, nullable=False),
)

# The secret is not stored: it is derived from the platform's key, the ID and the generation.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(40), primary_key=True),
    _make_owner_column(),
    Column("url", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("disabled_at", UtcDateTime),
    Column("disabled_why", Prose),
    Index("ix_webhooks_owner", "owner"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("channel", String(40), nullable=False),
    _make_owner_column(),
    # The ID of the webhook; empty on channels whose address follows from the user.
    Column("target", String(40), nullable=False),
    Column("message", JSON, nullable=False),
    Column("state", String(10), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("status", Integer),
    Column("error", Prose),
    Column("created_at", UtcDateTime, nullable=False),
    # Used for leases and for delays: the delivery is not sent before this time.
    Column("available_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("leased_in", BigInteger),
    Index("ix_deliveries_state", "state", "available_at"),
    Index("ix_deliveries_target", "target", "id"),
    Index("ix_deliveries_owner", "owner"),
    sqlite_autoincrement=True,
)

activity = Table(
    "activity",
    metadata,
    Column("job_id", Uuid, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    # By the platform's clock: the last activity that its agent has seen, and its last report.
    Column("active_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    # The number of warnings since then, and the time of the first one.
    Column("warned", Integer, nullable=False),
    Column("warned_at", UtcDateTime),
)
