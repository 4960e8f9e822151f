"""Tables of images and datasets, and of the projects whose members can see them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    String,
    Table,
    Text,
)

from aitne.store.column_types import ProjectName, Prose, UserName, UtcDateTime
from aitne.store.tables import metadata

images = Table(
    "images",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column("description", Prose, nullable=False),
    Column("apps", JSON, nullable=False),
    Column("needs", JSON, nullable=False),
    Column("env", JSON, nullable=False),
    Column("state", String(20), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", UserName, nullable=False),
    Column("verified_at", UtcDateTime),
    Column("damage", Prose),
    # Last, because it is long and not selected for lists.
    Column("packages", JSON, nullable=False),
)

image_artifacts = Table(
    "image_artifacts",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column("runtime", String(40), primary_key=True),
    Column("digest", String(71), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("path", Text),
    Column("mtime_ns", BigInteger),
    ForeignKeyConstraint(
        ["name", "version"], ["images.name", "images.version"], ondelete="CASCADE"
    ),
)

# An image without projects is visible to all users, so a project with images cannot be deleted.
image_projects = Table(
    "image_projects",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column("project", ProjectName, ForeignKey("projects.name"), primary_key=True),
    ForeignKeyConstraint(
        ["name", "version"], ["images.name", "images.version"], ondelete="CASCADE"
    ),
)

datasets = Table(
    "datasets",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column("description", Prose, nullable=False),
    Column("licence", Prose, nullable=False),
    Column("owner", UserName, nullable=False, index=True),
    Column("path", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("files", BigInteger, nullable=False),
    Column("manifest", String(64), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("verified_at", UtcDateTime),
    Column("verified_by", UserName),
    Column("damaged_files", BigInteger),
    Column("retired", Boolean, nullable=False),
)

dataset_projects = Table(
    "dataset_projects",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("version", String(64), primary_key=True),
    Column(
        "project",
        ProjectName,
        ForeignKey("projects.name", ondelete="CASCADE"),
        primary_key=True,
        index=True,
    ),
    ForeignKeyConstraint(
        ["name", "version"], ["datasets.name", "datasets.version"], ondelete="CASCADE"
    ),
)
