"""Longer names of users and projects, and one account for names that differ only in capital letters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_USERS = {
    "announcements": ("created_by",),
    "datasets": ("owner", "verified_by"),
    "deleted_runs": ("owner",),
    "deliveries": ("owner",),
    "device_logins": ("seen_by",),
    "dismissals": ("user_name",),
    "events": ("owner",),
    "idempotency": ("owner",),
    "images": ("created_by",),
    "invitations": ("created_by",),
    "jobs": ("owner", "account"),
    "limits": ("user_name",),
    "maintenance": ("created_by",),
    "members": ("user_name",),
    "node_history": ("actor",),
    "notification_settings": ("user_name",),
    "notifications": ("owner",),
    "outbox": ("owner",),
    "preferences": ("user_name",),
    "projects": ("requested_by",),
    "recovery_codes": ("owner",),
    "second_factors": ("owner",),
    "secrets": ("owner",),
    "tokens": ("owner", "created_by"),
    "user_secrets": ("owner",),
    "users": ("name",),
    "web_sessions": ("owner", "acting_as"),
    "webhooks": ("owner",),
}
_PROJECTS = {
    "dataset_projects": ("project",),
    "deleted_runs": ("project",),
    "events": ("project",),
    "image_projects": ("project",),
    "invitations": ("project",),
    "jobs": ("project",),
    "limits": ("project",),
    "members": ("project",),
    "projects": ("name",),
    "users": ("default_project",),
}


def upgrade() -> None:
    # SQLite enforces no lengths.
    if op.get_bind().dialect.name != "sqlite":
        for length, tables in ((128, _USERS), (64, _PROJECTS)):
            for table, columns in tables.items():
                for column in columns:
                    op.alter_column(table, column, type_=sa.String(length))
    op.create_index("ix_users_alike", "users", [sa.text("lower(name)")], unique=True)


def downgrade() -> None:
    # The columns stay longer, because an older release works with them and names would not fit.
    op.drop_index("ix_users_alike", "users")
