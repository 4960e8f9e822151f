"""Images and datasets, and the projects that can see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    RowMapping,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from typing_extensions import override

from aitne.adapters.store import catalog_tables, tables
from aitne.adapters.store.base import StorePart
from aitne.adapters.store.engine import Transaction
from aitne.adapters.store.jobs import LIVE_STATES
from aitne.adapters.store.portable import insert_if_absent
from aitne.core.errors import Conflict, NotFound
from aitne.core.models.dataset import Dataset
from aitne.core.models.image import Artifact, Image, ImageState
from aitne.core.ports.store import CatalogStore

_images = catalog_tables.images
_artifacts = catalog_tables.image_artifacts
_image_projects = catalog_tables.image_projects
_datasets = catalog_tables.datasets
_dataset_projects = catalog_tables.dataset_projects
_jobs = tables.jobs

IMAGE_CHANGED = "image.changed"
DATASET_CHANGED = "dataset.changed"

_LISTED = [column for column in _images.c if column.name != "packages"]
_DATASET_FIELDS = {column.name for column in _datasets.c}
_Reader = Transaction | AsyncConnection
_Version = tuple[str, str]


class Catalog(StorePart, CatalogStore):
    """Implementation of ``CatalogStore`` in SQL."""

    @override
    async def add_image(self, image: Image, *, actor: str) -> Image:
        where = _is(_images, image.name, image.version)
        row = image.model_dump(mode="json", include=_columns(_images))
        row |= {"created_at": image.created_at, "verified_at": image.verified_at}
        async with self._db.write() as tx:
            made = insert_if_absent(tx.dialect, _images).values(row)
            added = (await tx.execute(made)).rowcount > 0
            # Whoever adds to the same version waits here, and then sees what the first one added.
            await tx.execute(select(_images.c.name).where(where).with_for_update())
            if added:
                await _require_projects(tx, image.projects)
                await _grant(tx, _image_projects, image, image.projects)
            before = {} if added else await _artifacts_of(tx, image.name, image.version)
            for artifact in image.artifacts:
                await _put_artifact(tx, image, artifact, before.get(artifact.runtime))
            found = await _image(tx, image.name, image.version)
            if not added and not found.packages and image.packages:
                bill = [each.model_dump(mode="json") for each in image.packages]
                await tx.execute(update(_images).where(where).values(packages=bill))
                found = found.model_copy(update={"packages": image.packages})
            _note_image(tx, found, actor, "added")
        return found

    @override
    async def images(self) -> Sequence[Image]:
        order = (_images.c.name, _images.c.created_at.desc(), _images.c.version.desc())
        query = _with_projects(_LISTED).order_by(*order, _image_projects.c.project)
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
            artifacts: dict[_Version, list[Artifact]] = defaultdict(list)
            each_ones = select(_artifacts).order_by(_artifacts.c.runtime)
            for row in (await connection.execute(each_ones)).mappings():
                artifacts[row["name"], row["version"]].append(Artifact.model_validate(dict(row)))
        # One that was removed between the two reads is left out.
        return [
            _image_of(group, artifacts[key])
            for key, found in groupby(rows, lambda row: (row["name"], row["version"]))
            if artifacts[key] and (group := list(found))
        ]

    @override
    async def image(self, name: str, version: str) -> Image:
        async with self._db.read() as connection:
            return await _image(connection, name, version)

    @override
    async def set_image(
        self,
        name: str,
        version: str,
        *,
        state: ImageState | None = None,
        projects: Collection[str] | None = None,
        verified_at: datetime | None = None,
        damage: str | None = None,
        actor: str,
    ) -> Image:
        values: dict[str, Any] = {} if state is None else {"state": state}
        if verified_at is not None:
            values |= {"verified_at": verified_at, "damage": damage}
        async with self._db.write() as tx:
            await _lock(tx, _images, "image", name, version)
            before = await _image(tx, name, version)
            if values:
                where = _is(_images, name, version)
                await tx.execute(update(_images).where(where).values(values))
            if projects is not None:
                await _require_projects(tx, projects)
                await tx.execute(delete(_image_projects).where(_is(_image_projects, name, version)))
                await _grant(tx, _image_projects, before, projects)
            after = await _image(tx, name, version)
            if state is not None and after.state is not before.state:
                _note_image(tx, after, actor, after.state)
            if after.projects != before.projects:
                _note_image(tx, after, actor, "projects", before)
            if verified_at is not None:
                _note_image(tx, after, actor, "verified" if damage is None else "damaged")
        return after

    @override
    async def remove_image(self, name: str, version: str, *, actor: str) -> Sequence[Artifact]:
        async with self._db.write() as tx:
            await _lock(tx, _images, "image", name, version)
            image = await _image(tx, name, version)
            if image.offered:
                raise Conflict(
                    f"The image {image.reference} is offered. Retire it first: `aitne admin image "
                    f"retire {image.reference}`."
                )
            used = select(func.coalesce(_jobs.c.array_job_id, _jobs.c.id)).where(
                _jobs.c.state.in_(LIVE_STATES),
                _jobs.c.spec["image"].as_string() == image.reference,
            )
            if (job := (await tx.execute(used.limit(1))).scalar()) is not None:
                raise Conflict(
                    f"The image {image.reference} is in use by job {job}, which has not ended. "
                    "Try again when it has, or cancel it."
                )
            await tx.execute(delete(_images).where(_is(_images, name, version)))
            _note_image(tx, image, actor, "removed")
        return image.artifacts

    @override
    async def add_dataset(self, dataset: Dataset, *, actor: str) -> None:
        row = dataset.model_dump(include=_DATASET_FIELDS)
        taken = select(_datasets.c.owner).where(_datasets.c.name == dataset.name)
        async with self._db.write() as tx:
            # Or two who add a first version at the same time would both have the name.
            await tx.take(f"dataset {dataset.name}")
            owners = set((await tx.execute(taken)).scalars())
            if owners and dataset.owner not in owners:
                raise Conflict(
                    f"The name {dataset.name} is another owner's dataset. Choose another name."
                )
            await _require_projects(tx, dataset.projects)
            made = insert_if_absent(tx.dialect, _datasets).values(row)
            if not (await tx.execute(made)).rowcount:
                raise Conflict(
                    f"There is a dataset {dataset.reference} already. Choose another version."
                )
            await _grant(tx, _dataset_projects, dataset, dataset.projects)
            _note_dataset(tx, dataset, actor, "added")

    @override
    async def datasets(self, *, visible_to: str | None) -> Sequence[Dataset]:
        order = (_datasets.c.name, _datasets.c.created_at.desc(), _datasets.c.version.desc())
        query = select(_datasets).order_by(*order)
        if visible_to is not None:
            mine = select(tables.members.c.project).where(tables.members.c.user_name == visible_to)
            granted = select(_dataset_projects.c.name, _dataset_projects.c.version).where(
                _dataset_projects.c.project.in_(mine)
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

    @override
    async def dataset(self, name: str, version: str | None) -> Dataset:
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
            return await _dataset(connection, name, version)

    @override
    async def set_dataset(
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
        values: dict[str, Any] = {} if retired is None else {"retired": retired}
        if verified_at is not None:
            values |= {
                "verified_at": verified_at,
                "verified_by": verified_by,
                "damaged_files": damaged_files,
            }
        async with self._db.write() as tx:
            await _lock(tx, _datasets, "dataset", name, version)
            before = await _dataset(tx, name, version)
            if values:
                where = _is(_datasets, name, version)
                await tx.execute(update(_datasets).where(where).values(values))
            await _require_projects(tx, {*grant, *revoke})
            if revoke:
                these = _is(_dataset_projects, name, version)
                named = _dataset_projects.c.project.in_(sorted(revoke))
                await tx.execute(delete(_dataset_projects).where(these, named))
            await _grant(tx, _dataset_projects, before, set(grant) - set(before.projects))
            after = await _dataset(tx, name, version)
            if after.projects != before.projects:
                _note_dataset(tx, after, actor, "projects", before)
            if after.retired != before.retired:
                _note_dataset(tx, after, actor, "retired" if after.retired else "offered")
            if verified_at is not None:
                _note_dataset(tx, after, actor, "damaged" if damaged_files else "verified")
        return after


def _columns(table: Table) -> set[str]:
    return {column.name for column in table.c}


def _is(table: Table, name: str, version: str) -> ColumnElement[bool]:
    return and_(table.c.name == name, table.c.version == version)


async def _lock(tx: Transaction, table: Table, kind: str, name: str, version: str) -> None:
    """Lock this version until the commit. Raises ``NotFound``."""
    query = select(table.c.name).where(_is(table, name, version)).with_for_update()
    if (await tx.execute(query)).first() is None:
        raise NotFound(kind, f"{name}:{version}")


def _with_projects(columns: Sequence[Column[Any]]) -> Select[Any]:
    """Select a row for each project that sees an image, and one for an image that all users see.

    It is one statement: the second of two could miss the projects of an image that is being
    removed.
    """
    same = and_(
        _image_projects.c.name == _images.c.name, _image_projects.c.version == _images.c.version
    )
    return select(*columns, _image_projects.c.project).outerjoin(_image_projects, same)


def _image_of(rows: Sequence[RowMapping], artifacts: Iterable[Artifact]) -> Image:
    projects = tuple(row["project"] for row in rows if row["project"] is not None)
    return Image.model_validate({**rows[0], "artifacts": tuple(artifacts), "projects": projects})


async def _image(connection: _Reader, name: str, version: str) -> Image:
    query = _with_projects([*_images.c]).where(_is(_images, name, version))
    found = await connection.execute(query.order_by(_image_projects.c.project))
    rows = found.mappings().all()
    artifacts = await _artifacts_of(connection, name, version)
    if not rows or not artifacts:
        raise NotFound("image", f"{name}:{version}")
    return _image_of(rows, artifacts.values())


async def _artifacts_of(connection: _Reader, name: str, version: str) -> dict[str, Artifact]:
    query = select(_artifacts).where(_is(_artifacts, name, version)).order_by(_artifacts.c.runtime)
    rows = (await connection.execute(query)).mappings()
    return {row["runtime"]: Artifact.model_validate(dict(row)) for row in rows}


async def _put_artifact(
    tx: Transaction, image: Image, artifact: Artifact, before: Artifact | None
) -> None:
    """Add an artifact, or, if the same content is known, store its new path. Raises
    ``Conflict``.
    """
    key = {"name": image.name, "version": image.version}
    if before is None:
        await tx.execute(insert(_artifacts), {**key, **artifact.model_dump()})
        return
    if before.digest != artifact.digest:
        raise Conflict(
            f"{image.reference} has another image for {artifact.runtime} already ({before.digest}), "
            "and a version never changes. Give the new one another version."
        )
    where = and_(_is(_artifacts, **key), _artifacts.c.runtime == artifact.runtime)
    await tx.execute(update(_artifacts).where(where).values(artifact.model_dump()))


async def _dataset(connection: _Reader, name: str, version: str) -> Dataset:
    query = select(_datasets).where(_is(_datasets, name, version))
    row = (await connection.execute(query)).mappings().first()
    if row is None:
        raise NotFound("dataset", f"{name}:{version}")
    table = _dataset_projects
    granted = select(table.c.project).where(_is(table, name, version)).order_by(table.c.project)
    projects = tuple((await connection.execute(granted)).scalars())
    return Dataset.model_validate({**row, "projects": projects})


async def _projects_of(connection: AsyncConnection) -> Mapping[_Version, Sequence[str]]:
    table = _dataset_projects
    found: dict[_Version, list[str]] = defaultdict(list)
    for row in await connection.execute(select(table).order_by(table.c.project)):
        found[row.name, row.version].append(row.project)
    return found


async def _require_projects(tx: Transaction, names: Iterable[str]) -> None:
    wanted = set(names)
    known = select(tables.projects.c.name).where(tables.projects.c.name.in_(sorted(wanted)))
    for missing in sorted(wanted - set((await tx.execute(known)).scalars())) if wanted else ():
        raise NotFound("project", missing)


async def _grant(
    tx: Transaction, table: Table, to: Image | Dataset, projects: Iterable[str]
) -> None:
    rows = [
        {"name": to.name, "version": to.version, "project": project}
        for project in sorted(set(projects))
    ]
    if rows:
        await tx.execute(insert(table), rows)


def _note_image(
    tx: Transaction, image: Image, actor: str, what: str, before: Image | None = None
) -> None:
    """Append an event for the users who may see the image and, if that has changed, those who could
    before.
    """
    seen_by = [each.projects for each in (image, before) if each is not None]
    about = {"name": image.name, "version": image.version, "what": what, "actor": actor}
    if not all(seen_by):
        tx.append_event(IMAGE_CHANGED, about)
        return
    for project in sorted({name for names in seen_by for name in names}):
        # With an owner it is for the project's members and administrators, and not for everybody.
        tx.append_event(IMAGE_CHANGED, about, owner=actor, project=project)


def _note_dataset(
    tx: Transaction, dataset: Dataset, actor: str, what: str, before: Dataset | None = None
) -> None:
    about = {"name": dataset.name, "version": dataset.version, "what": what, "actor": actor}
    projects = {*dataset.projects, *(before.projects if before is not None else ())}
    hearers: Sequence[str | None] = sorted(projects) or [None]
    for project in hearers:
        tx.append_event(DATASET_CHANGED, about, owner=dataset.owner, project=project)
