"""Columns of a login's token and last authentication, and of the creator of a token."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import UtcDateTime

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("web_sessions", sa.Column("token_id", sa.Text(), nullable=True))
    op.add_column("web_sessions", sa.Column("authenticated_at", UtcDateTime(), nullable=True))
    op.add_column("tokens", sa.Column("created_by", sa.String(32), nullable=True))


def downgrade() -> None:
    op.drop_column("tokens", "created_by")
    op.drop_column("web_sessions", "authenticated_at")
    op.drop_column("web_sessions", "token_id")
