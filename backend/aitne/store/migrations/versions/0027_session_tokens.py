"""Hashes of the tokens with which programs in sessions use the API."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_INDEX = "ix_job_secrets_session_token_hash"


def upgrade() -> None:
    op.add_column("job_secrets", sa.Column("session_token_hash", sa.String(64)))
    op.create_index(_INDEX, "job_secrets", ["session_token_hash"], unique=True)


def downgrade() -> None:
    op.drop_index(_INDEX, "job_secrets")
    op.drop_column("job_secrets", "session_token_hash")
