"""Catalogue of images, and the users who may see each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from aitne.core.errors import InvalidInput, NotAllowed, NotFound
from aitne.core.models.base import EnvName, EnvValue, ProjectName, Strict
from aitne.core.models.image import (
    AppName,
    Artifact,
    Digest,
    Image,
    ImageApp,
    ImageName,
    ImageNeeds,
    ImageState,
    ImageVersion,
    Package,
)
from aitne.core.models.user import Actor
from aitne.core.ports.catalogue_files import ImageFiles
from aitne.core.users.permissions import PolicyAction, decide_access, require_permission
from aitne.store.images import ImageStore

_MOST_PACKAGES = 20_000
_Line = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]


class NewArtifact(Strict):
    """Artifact to register: the file or Docker image that one runtime starts."""

    runtime: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["apptainer"])
    """Name of the runtime that starts the artifact."""
    digest: Digest = Field(description="Digest of the file, or Docker's ID of the image.")
    size_bytes: int = Field(
        0, ge=0, le=1 << 60, description="Size in bytes; for a file the platform determines it."
    )
    path: str | None = Field(
        None,
        pattern=r"^/[^\x00-\x1f\x7f]{1,4000}$",
        description="File in the folder of images; omitted: the image is in the runtime's own store.",
    )


class NewPackage(Strict):
    """Package in the software bill of an image that is registered."""

    name: _Line
    version: _Line
    source: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$", examples=["debian", "python"])
    """Name of the package manager that installed the package."""


class NewImage(Strict):
    """Version of an image to register, with its artifacts; it was built and tested before."""

    name: ImageName
    version: ImageVersion
    description: str = Field("", max_length=500)
    apps: dict[AppName, ImageApp] = Field(default_factory=dict, max_length=20)
    """Apps that sessions may start in the image."""
    needs: ImageNeeds = ImageNeeds()
    """Requirements that a node must meet to run the image."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict, max_length=100)
    artifacts: list[NewArtifact] = Field(min_length=1, max_length=10)
    """Artifacts, one for each runtime."""
    packages: list[NewPackage] = Field(default_factory=list, max_length=_MOST_PACKAGES)
    """Packages that are installed in the image."""
    projects: list[ProjectName] = Field(
        default_factory=list,
        max_length=1_000,
        description="Projects whose members see the image; empty: all users.",
    )


class ImageService:
    """Service for the image catalogue: users read it, administrators change it."""

    def __init__(self, store: ImageStore, files: ImageFiles, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._files = files
        self._clock = clock

    async def list(self, actor: Actor) -> Sequence[Image]:
        """List the images that new jobs of the actor may use, without their packages. An
        administrator sees all images.

        Raises ``NotAllowed`` if the token does not permit reading.
        """
        images = await self.list_visible(actor)
        return images if actor.is_admin else [image for image in images if image.is_offered]

    async def list_visible(self, actor: Actor) -> Sequence[Image]:
        """List all images that the actor may see, including retired and damaged ones, by name and
        newest first, without their packages.

        Raises ``NotAllowed`` if the token does not permit reading.
        """
        may = decide_access(PolicyAction.IMAGE_READ, actor, project=_any_project(actor))
        if not may.allowed:
            raise NotAllowed(may.reason)
        return [
            _hide_other_projects(image, actor)
            for image in await self._store.list_images()
            if _can_see_image(actor, image)
        ]

    async def get_by_reference(self, actor: Actor, reference: str) -> Image:
        """Return the image ``name:version`` or, if ``reference`` is only a name, its newest version
        that new jobs may use. The result includes the packages.

        Raises ``NotFound`` if there is no such image that the actor may see, and ``NotAllowed`` if
        the token does not permit reading.
        """
        name, _, version = reference.partition(":")
        if version:
            return await self.get(actor, name, version)
        for image in await self.list_visible(actor):
            if image.name == name and image.is_offered:
                return await self.get(actor, name, image.version)
        raise NotFound("image", reference)

    async def get(self, actor: Actor, name: str, version: str) -> Image:
        """Return an image with its packages.

        Raises ``NotFound`` if there is no such image that the actor may see, and ``NotAllowed`` if
        the token does not permit reading.
        """
        return _hide_other_projects(
            await self._get_permitted_image(PolicyAction.IMAGE_READ, actor, name, version), actor
        )

    async def register(self, actor: Actor, new: NewImage) -> Image:
        """Register a version of an image and offer it to users. If the version exists, add the
        artifacts that it lacks.

        All artifact files are read completely, which takes a while.

        Raises:
            NotAllowed: the actor is not an administrator.
            InvalidInput: a file does not match its description, or a runtime has two artifacts.
            NotFound: a project that ``new`` names does not exist.
            Conflict: the version exists with other content.
        """
        require_permission(
            PolicyAction.IMAGE_ADMINISTER, actor, "image", new.name, project=_any_project(actor)
        )
        runtimes = [entry.runtime for entry in new.artifacts]
        if len(set(runtimes)) < len(runtimes):
            raise InvalidInput.field(
                "artifacts", "a runtime is named twice", value=", ".join(runtimes)
            )
        artifacts = []
        for index, claim in enumerate(new.artifacts):
            artifact = Artifact.model_validate(claim.model_dump())
            field_name = f"artifacts.{index}.path"
            artifacts.append(
                await asyncio.to_thread(self._files.check_artifact, artifact, field_name)
            )
        now = self._clock()
        image = Image(
            name=new.name,
            version=new.version,
            description=new.description,
            apps=dict(new.apps),
            needs=new.needs,
            env=dict(new.env),
            artifacts=tuple(artifacts),
            packages=tuple(
                Package.model_validate(package.model_dump()) for package in new.packages
            ),
            projects=tuple(sorted(set(new.projects))),
            created_at=now,
            created_by=actor.name,
            verified_at=now,
        )
        return await self._store.add_image(image, actor=actor.name)

    async def update(
        self,
        actor: Actor,
        name: str,
        version: str,
        *,
        state: ImageState | None = None,
        projects: Collection[str] | None = None,
    ) -> Image:
        """Change the state and the visibility of an image; None leaves a value unchanged.

        Args:
            state: whether the image is offered to new jobs or retired.
            projects: projects whose members see the image; empty: all users see it.

        Raises:
            NotFound: the image or a project does not exist.
            NotAllowed: the actor is not an administrator.
        """
        await self._get_permitted_image(PolicyAction.IMAGE_ADMINISTER, actor, name, version)
        return await self._store.update_image(
            name, version, state=state, projects=projects, actor=actor.name
        )

    async def record_verification(
        self, actor: Actor, name: str, version: str, damage: str | None
    ) -> Image:
        """Store the result of a verification of the image's files; ``damage`` describes what is
        wrong, None means nothing.

        New jobs cannot use a damaged image until a verification finds no damage. Raises
        ``NotFound``, and ``NotAllowed`` unless the actor is an administrator.
        """
        await self._get_permitted_image(PolicyAction.IMAGE_ADMINISTER, actor, name, version)
        return await self._store.update_image(
            name, version, verified_at=self._clock(), damage=damage, actor=actor.name
        )

    async def remove(self, actor: Actor, name: str, version: str) -> Sequence[Artifact]:
        """Remove a retired or damaged image from the catalogue, and return its artifacts, whose
        files are not deleted.

        Raises:
            NotFound: there is no such image.
            NotAllowed: the actor is not an administrator.
            Conflict: the image is offered to new jobs, or a job uses it.
        """
        await self._get_permitted_image(PolicyAction.IMAGE_ADMINISTER, actor, name, version)
        return await self._store.delete_image(name, version, actor=actor.name)

    async def _get_permitted_image(
        self, action: PolicyAction, actor: Actor, name: str, version: str
    ) -> Image:
        reference = f"{name}:{version}"
        # An actor without read access must not learn which images exist.
        require_permission(
            PolicyAction.IMAGE_READ, actor, "image", reference, project=_any_project(actor)
        )
        image = await self._store.get_image(name, version)
        require_permission(action, actor, "image", reference, project=_common_project(actor, image))
        return image


def _any_project(actor: Actor) -> str | None:
    return next(iter(sorted(actor.projects)), None)


def _common_project(actor: Actor, image: Image) -> str | None:
    """Return one of the actor's projects through which the actor may see the image; None if there
    is none.

    For an image that all users see, this is any project of the actor.
    """
    if not image.projects:
        return _any_project(actor)
    return next((name for name in image.projects if name in actor.projects), image.projects[0])


def _can_see_image(actor: Actor, image: Image) -> bool:
    return decide_access(
        PolicyAction.IMAGE_READ, actor, project=_common_project(actor, image)
    ).visible


def _hide_other_projects(image: Image, actor: Actor) -> Image:
    """Return a copy of the image that contains the names of only those projects that the actor may
    see.
    """
    if actor.is_admin:
        return image
    visible_projects = tuple(name for name in image.projects if name in actor.projects)
    return image.model_copy(update={"projects": visible_projects})
