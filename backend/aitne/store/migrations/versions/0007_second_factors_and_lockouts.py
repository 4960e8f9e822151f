"""Tables of second factors and lockouts, and a column of the identity source of logins."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from aitne.store.column_types import Prose, UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("source", sa.String(40)))
    op.add_column("users", sa.Column("subject", sa.Text()))
    op.create_index("ix_users_source", "users", ["source", "subject"], unique=True)
    # The source of earlier logins is unknown: their users have to log in again.
    op.drop_table("web_sessions")
    op.create_table(
        "web_sessions",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("source", sa.String(40), nullable=False),
        sa.Column("device", Prose(), nullable=False),
        sa.Column("address", sa.Text()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("last_seen_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("acting_as", sa.String(32)),
        sa.Column("acting_until", UtcDateTime()),
        sa.ForeignKeyConstraint(
            ["owner"], ["users.name"], name="fk_web_sessions_owner", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["acting_as"], ["users.name"], name="fk_web_sessions_acting_as", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name="pk_web_sessions"),
        sa.UniqueConstraint("id", name="uq_web_sessions_id"),
    )
    op.create_index("ix_web_sessions_owner", "web_sessions", ["owner"])
    op.create_table(
        "second_factors",
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("confirmed_at", UtcDateTime()),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"], ["users.name"], name="fk_second_factors_owner", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("owner", name="pk_second_factors"),
    )
    op.create_table(
        "recovery_codes",
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("code_hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"], ["users.name"], name="fk_recovery_codes_owner", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("owner", "code_hash", name="pk_recovery_codes"),
    )
    op.create_table(
        "lockouts",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("failed_at", UtcDateTime(), nullable=False),
        sa.Column("locked_until", UtcDateTime()),
        sa.PrimaryKeyConstraint("key", name="pk_lockouts"),
    )


def downgrade() -> None:
    op.drop_table("lockouts")
    op.drop_table("recovery_codes")
    op.drop_table("second_factors")
    op.drop_table("web_sessions")
    op.create_table(
        "web_sessions",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["owner"], ["users.name"], name="fk_web_sessions_owner", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name="pk_web_sessions"),
    )
    op.create_index("ix_web_sessions_owner", "web_sessions", ["owner"])
    op.drop_index("ix_users_source", "users")
    # Not copied like other tables on SQLite: dropping the old table would delete all rows of users.
    op.drop_column("users", "subject")
    op.drop_column("users", "source")
