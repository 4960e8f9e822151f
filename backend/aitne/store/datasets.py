"""Store of datasets, with the projects whose members can see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.dataset import Dataset
from aitne.store import catalogue_tables, tables
from aitne.store.database import Transaction
from aitne.store.portable_sql import insert_if_absent
from aitne.store.shared_catalogue_queries import (
    Reader,
    Version,
    grant_to_projects,
    is_version,
    lock_version,
    require_projects,
)
from aitne.store.store_part import StorePart

_datasets = catalogue_tables.datasets
_dataset_projects = catalogue_tables.dataset_projects
DATASET_CHANGED = "dataset.changed"
_DATASET_FIELDS = {column.name for column in _datasets.c}


class DatasetStore(StorePart):
    """Storage of datasets, one row for each version.

    Every change appends an event ``dataset.changed`` for the users who may see the dataset.
    """

    async def add_dataset(self, dataset: Dataset, *, actor: str) -> None:
        """Add a version of a dataset. The name of a dataset belongs to the owner of its first
        version.

        Raises:
            Conflict: the version exists already, or the name belongs to another owner.
            NotFound: there is no such project.
        """
        row = dataset.model_dump(include=_DATASET_FIELDS)
        taken = select(_datasets.c.owner).where(_datasets.c.name == dataset.name)
        async with self._db.write() as tx:
            # Otherwise two users who add a first version at the same time would both own the name.
            await tx.acquire_lock(f"dataset {dataset.name}")
            owners = set((await tx.execute(taken)).scalars())
            if owners and dataset.owner not in owners:
                raise Conflict(
                    f"The name {dataset.name} is another owner's dataset. Choose another name."
                )
            await require_projects(tx, dataset.projects)
            made = insert_if_absent(tx.dialect, _datasets).values(row)
            if not (await tx.execute(made)).rowcount:
                raise Conflict(
                    f"There is a dataset {dataset.reference} already. Choose another version."
                )
            await grant_to_projects(tx, _dataset_projects, dataset, dataset.projects)
            _append_dataset_event(tx, dataset, actor, "added")

    async def list_datasets(self, *, visible_to: str | None) -> Sequence[Dataset]:
        """List datasets by name and newest first. With ``visible_to``, only those that the user
        owns or may read as member of a project.
        """
        order = (_datasets.c.name, _datasets.c.created_at.desc(), _datasets.c.version.desc())
        query = select(_datasets).order_by(*order)
        if visible_to is not None:
            user_projects = select(tables.members.c.project).where(
                tables.members.c.user_name == visible_to
            )
            granted = select(_dataset_projects.c.name, _dataset_projects.c.version).where(
                _dataset_projects.c.project.in_(user_projects)
            )
            key = tuple_(_datasets.c.name, _datasets.c.version)
            query = query.where(or_(_datasets.c.owner == visible_to, key.in_(granted)))
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
            projects = await _projects_of(connection)
        return [
            Dataset.model_validate(
                {**row, "projects": tuple(projects[row["name"], row["version"]])}
            )
            for row in rows
        ]

    async def get_dataset(self, name: str, version: str | None) -> Dataset:
        """Return the dataset; if ``version`` is None, the newest version that is not retired.
        Raises ``NotFound``."""
        async with self._db.read() as connection:
            if version is None:
                newest = (
                    select(_datasets.c.version)
                    .where(_datasets.c.name == name, _datasets.c.retired.is_(False))
                    .order_by(_datasets.c.created_at.desc(), _datasets.c.version.desc())
                    .limit(1)
                )
                version = (await connection.execute(newest)).scalar()
                if version is None:
                    raise NotFound("dataset", name)
            return await _read_dataset(connection, name, version)

    async def update_dataset(
        self,
        name: str,
        version: str,
        *,
        grant: Collection[str] = (),
        revoke: Collection[str] = (),
        verified_at: datetime | None = None,
        verified_by: str | None = None,
        damaged_files: int | None = None,
        retired: bool | None = None,
        actor: str,
    ) -> Dataset:
        """Permit (``grant``) and forbid (``revoke``) projects to read the dataset, and change those
        fields whose arguments are not None.

        Raises ``NotFound`` if the dataset or a project does not exist.
        """
        values: dict[str, Any] = {} if retired is None else {"retired": retired}
        if verified_at is not None:
            values |= {
                "verified_at": verified_at,
                "verified_by": verified_by,
                "damaged_files": damaged_files,
            }
        async with self._db.write() as tx:
            await lock_version(tx, _datasets, "dataset", name, version)
            before = await _read_dataset(tx, name, version)
            if values:
                condition = is_version(_datasets, name, version)
                await tx.execute(update(_datasets).where(condition).values(values))
            await require_projects(tx, {*grant, *revoke})
            if revoke:
                these = is_version(_dataset_projects, name, version)
                named = _dataset_projects.c.project.in_(sorted(revoke))
                await tx.execute(delete(_dataset_projects).where(these, named))
            await grant_to_projects(
                tx, _dataset_projects, before, set(grant) - set(before.projects)
            )
            after = await _read_dataset(tx, name, version)
            if after.projects != before.projects:
                _append_dataset_event(tx, after, actor, "projects", before)
            if after.retired != before.retired:
                _append_dataset_event(tx, after, actor, "retired" if after.retired else "offered")
            if verified_at is not None:
                _append_dataset_event(tx, after, actor, "damaged" if damaged_files else "verified")
        return after


async def _read_dataset(connection: Reader, name: str, version: str) -> Dataset:
    query = select(_datasets).where(is_version(_datasets, name, version))
    row = (await connection.execute(query)).mappings().first()
    if row is None:
        raise NotFound("dataset", f"{name}:{version}")
    table = _dataset_projects
    granted = (
        select(table.c.project).where(is_version(table, name, version)).order_by(table.c.project)
    )
    projects = tuple((await connection.execute(granted)).scalars())
    return Dataset.model_validate({**row, "projects": projects})


async def _projects_of(connection: AsyncConnection) -> Mapping[Version, Sequence[str]]:
    table = _dataset_projects
    projects: dict[Version, list[str]] = defaultdict(list)
    for row in await connection.execute(select(table).order_by(table.c.project)):
        projects[row.name, row.version].append(row.project)
    return projects


def _append_dataset_event(
    tx: Transaction, dataset: Dataset, actor: str, what: str, before: Dataset | None = None
) -> None:
    about = {"name": dataset.name, "version": dataset.version, "what": what, "actor": actor}
    projects = {*dataset.projects, *(before.projects if before is not None else ())}
    hearers: Sequence[str | None] = sorted(projects) or [None]
    for project in hearers:
        tx.append_event(DATASET_CHANGED, about, owner=dataset.owner, project=project)
