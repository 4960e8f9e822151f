"""Sessions whose owners' logins have ended, so that they get no session token any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    ended = sa.Column("session_token_ended", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("job_secrets", ended)


def downgrade() -> None:
    op.drop_column("job_secrets", "session_token_ended")
