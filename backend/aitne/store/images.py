"""Store of images, with the projects whose members can see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Column, RowMapping, Select, and_, delete, func, insert, select, update

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.image import Artifact, Image, ImageState
from aitne.store import catalogue_tables, tables
from aitne.store.database import Transaction
from aitne.store.jobs import LIVE_STATES
from aitne.store.portable_sql import insert_if_absent
from aitne.store.shared_catalogue_queries import (
    Reader,
    Version,
    columns_of_table,
    grant_to_projects,
    is_version,
    lock_version,
    require_projects,
)
from aitne.store.store_part import StorePart

_images = catalogue_tables.images
_artifacts = catalogue_tables.image_artifacts
_image_projects = catalogue_tables.image_projects
_jobs = tables.jobs

IMAGE_CHANGED = "image.changed"

_LISTED = [column for column in _images.c if column.name != "packages"]


class ImageStore(StorePart):
    """Storage of images, one row for each version.

    Every change appends an event ``image.changed`` for the users who may see the image.
    """

    async def add_image(self, image: Image, *, actor: str) -> Image:
        """Add a version of an image with its artifacts. If the version exists, add those artifacts
        that it lacks. Return the version as it is afterwards.

        Raises:
            Conflict: the version has an artifact of the same runtime with another digest.
        """
        condition = is_version(_images, image.name, image.version)
        row = image.model_dump(mode="json", include=columns_of_table(_images))
        row |= {"created_at": image.created_at, "verified_at": image.verified_at}
        async with self._db.write() as tx:
            made = insert_if_absent(tx.dialect, _images).values(row)
            added = (await tx.execute(made)).rowcount > 0
            # A concurrent call for the same version waits here, and then sees the first one's artifacts.
            await tx.execute(select(_images.c.name).where(condition).with_for_update())
            if added:
                await require_projects(tx, image.projects)
                await grant_to_projects(tx, _image_projects, image, image.projects)
            before = {} if added else await _artifacts_of(tx, image.name, image.version)
            for artifact in image.artifacts:
                await _save_artifact(tx, image, artifact, before.get(artifact.runtime))
            stored_image = await _read_image(tx, image.name, image.version)
            if not added and not stored_image.packages and image.packages:
                bill = [package.model_dump(mode="json") for package in image.packages]
                await tx.execute(update(_images).where(condition).values(packages=bill))
                stored_image = stored_image.model_copy(update={"packages": image.packages})
            _append_image_event(tx, stored_image, actor, "added")
        return stored_image

    async def list_images(self) -> Sequence[Image]:
        """Return all images, without their packages, by name and newest version first."""
        order = (_images.c.name, _images.c.created_at.desc(), _images.c.version.desc())
        query = _select_with_projects(_LISTED).order_by(*order, _image_projects.c.project)
        async with self._db.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
            artifacts: dict[Version, list[Artifact]] = defaultdict(list)
            each_ones = select(_artifacts).order_by(_artifacts.c.runtime)
            for row in (await connection.execute(each_ones)).mappings():
                artifacts[row["name"], row["version"]].append(Artifact.model_validate(dict(row)))
        # An image that was removed between the two reads is omitted.
        return [
            _image_of(group, artifacts[key])
            for key, group_rows in groupby(rows, lambda row: (row["name"], row["version"]))
            if artifacts[key] and (group := list(group_rows))
        ]

    async def get_image(self, name: str, version: str) -> Image:
        """Return the image with its packages. Raises ``NotFound``."""
        async with self._db.read() as connection:
            return await _read_image(connection, name, version)

    async def update_image(
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
        """Change those fields of the image whose arguments are not None, and return the image.

        ``damage`` is written only together with ``verified_at``; None then means that the
        verification found no damage. Without ``verified_at``, ``damage`` is ignored. Raises
        ``NotFound`` if the image or a project does not exist.
        """
        values: dict[str, Any] = {} if state is None else {"state": state}
        if verified_at is not None:
            values |= {"verified_at": verified_at, "damage": damage}
        async with self._db.write() as tx:
            await lock_version(tx, _images, "image", name, version)
            before = await _read_image(tx, name, version)
            if values:
                condition = is_version(_images, name, version)
                await tx.execute(update(_images).where(condition).values(values))
            if projects is not None:
                await require_projects(tx, projects)
                await tx.execute(
                    delete(_image_projects).where(is_version(_image_projects, name, version))
                )
                await grant_to_projects(tx, _image_projects, before, projects)
            after = await _read_image(tx, name, version)
            if state is not None and after.state is not before.state:
                _append_image_event(tx, after, actor, after.state)
            if after.projects != before.projects:
                _append_image_event(tx, after, actor, "projects", before)
            if verified_at is not None:
                _append_image_event(tx, after, actor, "verified" if damage is None else "damaged")
        return after

    async def delete_image(self, name: str, version: str, *, actor: str) -> Sequence[Artifact]:
        """Remove the version of the image from the catalogue; return the artifacts that it had.

        Raises:
            NotFound: there is no such version.
            Conflict: the version is still offered to users, or a job that has not ended uses it.
        """
        async with self._db.write() as tx:
            await lock_version(tx, _images, "image", name, version)
            image = await _read_image(tx, name, version)
            if image.is_offered:
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
            await tx.execute(delete(_images).where(is_version(_images, name, version)))
            _append_image_event(tx, image, actor, "removed")
        return image.artifacts


def _select_with_projects(columns: Sequence[Column[Any]]) -> Select[Any]:
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


async def _read_image(connection: Reader, name: str, version: str) -> Image:
    query = _select_with_projects([*_images.c]).where(is_version(_images, name, version))
    result = await connection.execute(query.order_by(_image_projects.c.project))
    rows = result.mappings().all()
    artifacts = await _artifacts_of(connection, name, version)
    if not rows or not artifacts:
        raise NotFound("image", f"{name}:{version}")
    return _image_of(rows, artifacts.values())


async def _artifacts_of(connection: Reader, name: str, version: str) -> dict[str, Artifact]:
    query = (
        select(_artifacts)
        .where(is_version(_artifacts, name, version))
        .order_by(_artifacts.c.runtime)
    )
    rows = (await connection.execute(query)).mappings()
    return {row["runtime"]: Artifact.model_validate(dict(row)) for row in rows}


async def _save_artifact(
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
    condition = and_(is_version(_artifacts, **key), _artifacts.c.runtime == artifact.runtime)
    await tx.execute(update(_artifacts).where(condition).values(artifact.model_dump()))


def _append_image_event(
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
