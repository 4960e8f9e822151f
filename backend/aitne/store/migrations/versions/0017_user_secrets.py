"""Table of users' secrets, and encryption of the data that JupyterHub passes to sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import UtcDateTime

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "user_secrets",
        sa.Column(
            "owner",
            sa.String(32),
            sa.ForeignKey("users.name", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("name", sa.String(128), primary_key=True),
        sa.Column("encrypted", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
    )
    # These are in clear text, and the running sessions have read them already.
    op.execute("UPDATE job_secrets SET handover = NULL")


def downgrade() -> None:
    op.execute("UPDATE job_secrets SET handover = NULL")
    op.drop_table("user_secrets")
