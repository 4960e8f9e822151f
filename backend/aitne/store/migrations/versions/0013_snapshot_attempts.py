"""Column of the attempt to which a snapshot or document belongs; null in rows of earlier releases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_TABLES = ("snapshots", "job_documents")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("attempt", sa.Integer(), nullable=True))


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "attempt")
