"""Tables of the audit log, announcements, maintenance and the history of nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_SQLITE = (
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN "
    "SELECT RAISE(ABORT, 'the audit log is append only'); END",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN "
    "SELECT RAISE(ABORT, 'the audit log is append only'); END",
)
_POSTGRES = (
    "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "RAISE EXCEPTION 'the audit log is append only'; END $$",
    "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
)


def upgrade() -> None:
    _audit()
    op.create_table(
        "announcements",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("projects", sa.JSON(), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_announcements"),
    )
    op.create_table(
        "dismissals",
        sa.Column("announcement", sa.String(length=32), nullable=False),
        sa.Column("user_name", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["announcement"],
            ["announcements.id"],
            name="fk_dismissals_announcement",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], name="fk_dismissals_user_name", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("announcement", "user_name", name="pk_dismissals"),
    )
    op.create_table(
        "maintenance",
        sa.Column("cluster", sa.String(length=40), nullable=False),
        sa.Column("starts_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ends_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name="pk_maintenance"),
    )
    op.create_table(
        "node_history",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster", sa.String(length=40), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("what", sa.String(length=20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("actor", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_node_history"),
    )
    op.create_index("ix_node_history_node", "node_history", ["node", "id"])
    op.create_index("ix_node_history_time", "node_history", ["time"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("impersonator", sa.Text(), nullable=True),
        sa.Column("action", sa.String(length=100), nullable=False),
        sa.Column("object", sa.Text(), nullable=True),
        sa.Column("outcome", sa.String(length=10), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_time", "audit", ["time"])
    for name in ("actor", "impersonator", "action", "object"):
        op.create_index(f"ix_audit_{name}", "audit", [name, "id"])
    for statement in _SQLITE if op.get_bind().dialect.name == "sqlite" else _POSTGRES:
        op.execute(statement)


def downgrade() -> None:
    for name in ("node_history", "maintenance", "dismissals", "announcements", "audit"):
        op.drop_table(name)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_refuse()")
