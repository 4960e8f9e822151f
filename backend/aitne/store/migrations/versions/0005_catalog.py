"""Tables of images and datasets, one row for each version, and of the projects whose members can
see them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _version() -> tuple[sa.Column[str], sa.Column[str]]:
    return (
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
    )


def upgrade() -> None:
    op.create_table(
        "images",
        *_version(),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("apps", sa.JSON(), nullable=False),
        sa.Column("needs", sa.JSON(), nullable=False),
        sa.Column("env", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("verified_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("damage", sa.Text(), nullable=True),
        sa.Column("packages", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_images"),
    )
    op.create_table(
        "image_artifacts",
        *_version(),
        sa.Column("runtime", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=71), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["name", "version"],
            ["images.name", "images.version"],
            name="fk_image_artifacts_name",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("name", "version", "runtime", name="pk_image_artifacts"),
    )
    op.create_table(
        "image_projects",
        *_version(),
        sa.Column("project", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "version"],
            ["images.name", "images.version"],
            name="fk_image_projects_name",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_image_projects_project"),
        sa.PrimaryKeyConstraint("name", "version", "project", name="pk_image_projects"),
    )
    op.create_table(
        "datasets",
        *_version(),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("licence", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("manifest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verified_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("verified_by", sa.String(length=32), nullable=True),
        sa.Column("damaged_files", sa.BigInteger(), nullable=True),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name="pk_datasets"),
    )
    op.create_index("ix_datasets_owner", "datasets", ["owner"])
    op.create_table(
        "dataset_projects",
        *_version(),
        sa.Column("project", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["name", "version"],
            ["datasets.name", "datasets.version"],
            name="fk_dataset_projects_name",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project"],
            ["projects.name"],
            name="fk_dataset_projects_project",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("name", "version", "project", name="pk_dataset_projects"),
    )
    op.create_index("ix_dataset_projects_project", "dataset_projects", ["project"])


def downgrade() -> None:
    for name in ("dataset_projects", "datasets", "image_projects", "image_artifacts", "images"):
        op.drop_table(name)
