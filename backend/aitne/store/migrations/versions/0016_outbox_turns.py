"""Columns of an outbox item's owner, so that the items of owners take turns, and of the job for
which it waits.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "outbox", sa.Column("owner", sa.String(32), nullable=False, server_default=sa.text("''"))
    )
    op.add_column("outbox", sa.Column("dependency", sa.Uuid(), nullable=True))
    op.execute("UPDATE outbox SET owner = (SELECT owner FROM jobs WHERE jobs.id = outbox.job_id)")
    op.create_index(
        "ix_outbox_dependency",
        "outbox",
        ["dependency"],
        sqlite_where=sa.text("dependency IS NOT NULL"),
        postgresql_where=sa.text("dependency IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_outbox_dependency", "outbox")
    for column in ("dependency", "owner"):
        op.drop_column("outbox", column)
