"""Tables of notifications, their recipients and their deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TIME = sa.DateTime(timezone=True)


def _of_user(table: str, column: str = "owner") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], ["users.name"], name=f"fk_{table}_{column}", ondelete="CASCADE"
    )


def upgrade() -> None:
    op.add_column("users", sa.Column("mail", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("idle_ends_at", _TIME, nullable=True))
    op.add_column("jobs", sa.Column("gpu_idle_since", _TIME, nullable=True))
    cursors = op.create_table(
        "cursors",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_cursors"),
    )
    # Events from before this revision cause no notifications.
    events = sa.table("events", sa.column("id", sa.BigInteger()))
    newest = op.get_bind().execute(sa.select(sa.func.max(events.c.id))).scalar() or 0
    op.bulk_insert(cursors, [{"name": "notifications", "event_id": newest}])
    op.create_table(
        "notifications",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("level", sa.String(length=10), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("read_at", _TIME, nullable=True),
        _of_user("notifications"),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
        sa.UniqueConstraint("owner", "event_id", name="uq_notifications_owner"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notifications_owner", "notifications", ["owner", "id"])
    op.create_table(
        "notification_settings",
        sa.Column("user_name", sa.String(length=32), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        _of_user("notification_settings", "user_name"),
        sa.PrimaryKeyConstraint("user_name", name="pk_notification_settings"),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("disabled_at", _TIME, nullable=True),
        sa.Column("disabled_why", sa.Text(), nullable=True),
        _of_user("webhooks"),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    op.create_index("ix_webhooks_owner", "webhooks", ["owner"])
    op.create_table(
        "deliveries",
        sa.Column("id", _BIG_ID, nullable=False),
        sa.Column("channel", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=40), nullable=False),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("available_at", _TIME, nullable=False),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.Column("leased_in", sa.BigInteger(), nullable=True),
        _of_user("deliveries"),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deliveries_state", "deliveries", ["state", "available_at"])
    op.create_index("ix_deliveries_target", "deliveries", ["target", "id"])
    op.create_index("ix_deliveries_owner", "deliveries", ["owner"])
    op.create_table(
        "activity",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("active_at", _TIME, nullable=False),
        sa.Column("seen_at", _TIME, nullable=False),
        sa.Column("warned", sa.Integer(), nullable=False),
        sa.Column("warned_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_activity_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_activity"),
    )


def downgrade() -> None:
    for table in (
        *("activity", "deliveries", "webhooks", "notification_settings"),
        *("notifications", "cursors"),
    ):
        op.drop_table(table)
    op.drop_column("jobs", "gpu_idle_since")
    op.drop_column("jobs", "idle_ends_at")
    op.drop_column("users", "mail")
