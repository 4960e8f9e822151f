"""Store of images and datasets, with the projects whose members can see them."""

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
        condition = _is(_images, image.name, image.version)
        row = image.model_dump(mode="json", include=_columns(_images))
        row |= {"created_at": image.created_at, "verified_at": image.verified_at}
        async with self._db.write() as tx:
            made = insert_if_absent(tx.dialect, _images).values(row)
            added = (await tx.execute(made)).rowcount > 0
            # A concurrent call for the same version waits here, and then sees the first one's artifacts.
            await tx.execute(select(_images.c.name).where(condition).with_for_update())
            if added:
                await _require_projects(tx, image.projects)
                await _grant(tx, _image_projects, image, image.projects)
            before = {} if added else await _artifacts_of(tx, image.name, image.version)
            for artifact in image.artifacts:
                await _put_artifact(tx, image, artifact, before.get(artifact.runtime))
            stored_image = await _image(tx, image.name, image.version)
            if not added and not stored_image.packages and image.packages:
                bill = [package.model_dump(mode="json") for package in image.packages]
                await tx.execute(update(_images).where(condition).values(packages=bill))
                stored_image = stored_image.model_copy(update={"packages": image.packages})
            _note_image(tx, stored_image, actor, "added")
        return stored_image

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
        # An image that was removed between the two reads is omitted.
        return [
            _image_of(group, artifacts[key])
            for key, group_rows in groupby(rows, lambda row: (row["name"], row["version"]))
            if artifacts[key] and (group := list(group_rows))
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
                condition = _is(_images, name, version)
                await tx.execute(update(_images).where(condition).values(values))
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
            # Otherwise two users who add a first version at the same time would both own the name.
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
                condition = _is(_datasets, name, version)
                await tx.execute(update(_datasets).where(condition).values(values))
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
    query = select(table.c.name).where(_is(table, name, version)).with_for_update()
    if (await tx.execute(query)).first() is None:
        raise NotFound(kind, f"{name}:{version}")


def _with_projects(columns: Sequence[Column[Any]]) -> Select[Any]:
    """Return a query of images with their projects: one row for each project that can see an image,
    or one row without a project if all users can see it.

    Images and projects are read in a single statement. With two statements, an image could be
    removed between them, and would be returned without its projects.
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
    result = await connection.execute(query.order_by(_image_projects.c.project))
    rows = result.mappings().all()
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
    """Store a new artifact, or the new path of an existing one. Raises ``Conflict`` if the existing
    artifact has another digest.
    """
    key = {"name": image.name, "version": image.version}
    if before is None:
        await tx.execute(insert(_artifacts), {**key, **artifact.model_dump()})
        return
    if before.digest != artifact.digest:
        raise Conflict(
            f"{image.reference} already has another artifact for {artifact.runtime} ({before.digest}), "
            "and a version never changes. Choose another version for the new one."
        )
    condition = and_(_is(_artifacts, **key), _artifacts.c.runtime == artifact.runtime)
    await tx.execute(update(_artifacts).where(condition).values(artifact.model_dump()))


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
    projects: dict[_Version, list[str]] = defaultdict(list)
    for row in await connection.execute(select(table).order_by(table.c.project)):
        projects[row.name, row.version].append(row.project)
    return projects


async def _require_projects(tx: Transaction, names: Iterable[str]) -> None:
    unique_names = set(names)
    query = select(tables.projects.c.name).where(tables.projects.c.name.in_(sorted(unique_names)))
    for missing in (
        sorted(unique_names - set((await tx.execute(query)).scalars())) if unique_names else ()
    ):
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
    """Append an event about a change of an image, for all users who may see the image or could see
    it before the change.

    Args:
        tx: the transaction.
        image: the image after the change.
        actor: user who made the change.
        what: name of the change.
        before: the image before the change; None: the same projects could see it.
    """
    seen_by = [version.projects for version in (image, before) if version is not None]
    about = {"name": image.name, "version": image.version, "what": what, "actor": actor}
    if not all(seen_by):
        tx.append_event(IMAGE_CHANGED, about)
        return
    for project in sorted({name for names in seen_by for name in names}):
        # An event with an owner is only for the project's members and administrators.
        tx.append_event(IMAGE_CHANGED, about, owner=actor, project=project)


def _note_dataset(
    tx: Transaction, dataset: Dataset, actor: str, what: str, before: Dataset | None = None
) -> None:
    about = {"name": dataset.name, "version": dataset.version, "what": what, "actor": actor}
    projects = {*dataset.projects, *(before.projects if before is not None else ())}
    hearers: Sequence[str | None] = sorted(projects) or [None]
    for project in hearers:
        tx.append_event(DATASET_CHANGED, about, owner=dataset.owner, project=project)
