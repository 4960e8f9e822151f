"""Columns of a job's account, the location of its files, and its state in the scheduler."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COLUMNS = (
    sa.Column("account", sa.String(length=64), nullable=True),
    sa.Column("folder", sa.Text(), nullable=True),
    sa.Column("partition", sa.Text(), nullable=True),
    sa.Column("priority", sa.BigInteger(), nullable=True),
    sa.Column("scheduler_record", sa.JSON(), nullable=True),
)


def upgrade() -> None:
    with op.batch_alter_table("jobs") as batch:
        for column in _COLUMNS:
            batch.add_column(column)


def downgrade() -> None:
    with op.batch_alter_table("jobs") as batch:
        for column in reversed(_COLUMNS):
            batch.drop_column(column.name)
