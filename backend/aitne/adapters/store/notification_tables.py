"""The tables of notifications, of what carries them, and of what sessions are seen to do."""

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

from aitne.adapters.store.column_types import BigId, Prose, UtcDateTime
from aitne.adapters.store.tables import metadata


def _owner() -> Column[str]:
    return Column("owner", String(32), ForeignKey("users.name", ondelete="CASCADE"), nullable=False)


# How far who reads the event log has come: it moves in the transaction that writes what follows.
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
    _owner(),
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
    # Of one event a person hears once, whoever reads the log how often.
    UniqueConstraint("owner", "event_id"),
    Index("ix_notifications_owner", "owner", "id"),
    sqlite_autoincrement=True,
)

notification_settings = Table(
    "notification_settings",
    metadata,
    Column("user_name", String(32), ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("data", JSON, nullable=False),
)

# The secret is not here: it is derived from the platform's own key, the id and the generation.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(40), primary_key=True),
    _owner(),
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
    _owner(),
    # Which webhook; empty where the person alone says where it goes.
    Column("target", String(40), nullable=False),
    Column("message", JSON, nullable=False),
    Column("state", String(10), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("status", Integer),
    Column("error", Prose),
    Column("created_at", UtcDateTime, nullable=False),
    # A lease and a delay are the same thing: nobody takes it before this time.
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
    # By the platform's clock, when its agent has last seen it do something, and last said so.
    Column("active_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    # How many warnings were given since then, and when the first was.
    Column("warned", Integer, nullable=False),
    Column("warned_at", UtcDateTime),
)
