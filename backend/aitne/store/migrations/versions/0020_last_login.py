"""Column of the last login of a user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import UtcDateTime

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("last_login_at", UtcDateTime(), nullable=True))
    users = sa.table("users", sa.column("name"), sa.column("last_login_at", UtcDateTime()))
    sign_ins = sa.table("web_sessions", sa.column("owner"), sa.column("created_at", UtcDateTime()))
    last = (
        sa.select(sa.func.max(sign_ins.c.created_at))
        .where(sign_ins.c.owner == users.c.name)
        .scalar_subquery()
    )
    op.execute(sa.update(users).values(last_login_at=last))


def downgrade() -> None:
    op.drop_column("users", "last_login_at")
