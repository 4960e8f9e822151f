"""Column that counts a user's ended logins of which JupyterHub has not been notified."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    column = sa.Column("hub_logouts", sa.Integer(), nullable=False, server_default=sa.text("0"))
    op.add_column("users", column)


def downgrade() -> None:
    op.drop_column("users", "hub_logouts")
