"""Rows of the catalogue, in tables that images and datasets have alike."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Table, and_, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.errors import NotFound
from aitne.core.models.dataset import Dataset
from aitne.core.models.image import Image
from aitne.store import tables
from aitne.store.database import Transaction

Reader = Transaction | AsyncConnection
Version = tuple[str, str]


def columns_of_table(table: Table) -> set[str]:
    """Return the names of the columns of a table."""
    return {column.name for column in table.c}


def is_version(table: Table, name: str, version: str) -> ColumnElement[bool]:
    """Return the condition for the rows of one version of an image or dataset."""
    return and_(table.c.name == name, table.c.version == version)


async def lock_version(tx: Transaction, table: Table, kind: str, name: str, version: str) -> None:
    """Lock the row of a version of an image or dataset until the end of the transaction.

    Args:
        tx: the transaction.
        table: table of images or datasets.
        kind: ``image`` or ``dataset``, for the error.
        name: name of the image or dataset.
        version: its version.

    Raises:
        NotFound: this version does not exist.
    """
    query = select(table.c.name).where(is_version(table, name, version)).with_for_update()
    if (await tx.execute(query)).first() is None:
        raise NotFound(kind, f"{name}:{version}")


async def require_projects(tx: Transaction, names: Iterable[str]) -> None:
    """Raise ``NotFound`` if one of the projects does not exist."""
    unique_names = set(names)
    query = select(tables.projects.c.name).where(tables.projects.c.name.in_(sorted(unique_names)))
    for missing in (
        sorted(unique_names - set((await tx.execute(query)).scalars())) if unique_names else ()
    ):
        raise NotFound("project", missing)


async def grant_to_projects(
    tx: Transaction, table: Table, to: Image | Dataset, projects: Iterable[str]
) -> None:
    """Let the members of these projects see the version of an image or dataset."""
    rows = [
        {"name": to.name, "version": to.version, "project": project}
        for project in sorted(set(projects))
    ]
    if rows:
        await tx.execute(insert(table), rows)
