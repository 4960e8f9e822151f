"""The catalogue of images: what programs run in, and who sees which."""

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
from aitne.core.policy import Action, decide, require
from aitne.core.ports.catalogue_files import ImageFiles
from aitne.core.ports.store import CatalogStore

_MOST_PACKAGES = 20_000
_Line = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]


class NewArtifact(Strict):
    """An image as one runtime takes it."""

    runtime: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["apptainer"])
    """What takes it."""
    digest: Digest = Field(description="Of the file, or Docker's own id of the image.")
    size_bytes: int = Field(
        0, ge=0, le=1 << 60, description="Only without a path: of a file the platform looks itself."
    )
    path: str | None = Field(
        None,
        pattern=r"^/[^\x00-\x1f\x7f]{1,4000}$",
        description="The file, in the images' folder; omitted: the runtime's own store has it.",
    )


class NewPackage(Strict):
    """One entry of the software bill."""

    name: _Line
    version: _Line
    source: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$", examples=["debian", "python"])
    """Where it came from."""


class NewImage(Strict):
    """A version of an image that was built and tried."""

    name: ImageName
    version: ImageVersion
    description: str = Field("", max_length=500)
    apps: dict[AppName, ImageApp] = Field(default_factory=dict, max_length=20)
    """The apps that sessions may start in it."""
    needs: ImageNeeds = ImageNeeds()
    """What a node must have to run it."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict, max_length=100)
    artifacts: list[NewArtifact] = Field(min_length=1, max_length=10)
    """The image itself, once for each runtime."""
    packages: list[NewPackage] = Field(default_factory=list, max_length=_MOST_PACKAGES)
    """What is installed in it."""
    projects: list[ProjectName] = Field(
        default_factory=list,
        max_length=1_000,
        description="Whose members see it; empty: everybody.",
    )


class ImageService:
    """What users see and administrators change."""

    def __init__(
        self, store: CatalogStore, files: ImageFiles, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._files = files
        self._clock = clock

    async def list(self, actor: Actor) -> Sequence[Image]:
        """Those that new jobs of the actor may use; for administrators all. Without packages.

        Raises ``NotAllowed``."""
        found = await self.candidates(actor)
        return found if actor.is_admin else [image for image in found if image.offered]

    async def candidates(self, actor: Actor) -> Sequence[Image]:
        """All that the actor may see, the retired and damaged ones too: their names are known.
        Without packages, by name and newest first.

        Raises ``NotAllowed``."""
        may = decide(Action.IMAGE_READ, actor, project=_any_project(actor))
        if not may.allowed:
            raise NotAllowed(may.reason)
        return [_shown(image, actor) for image in await self._store.images() if _sees(actor, image)]

    async def find(self, actor: Actor, reference: str) -> Image:
        """The image ``name:version``, or of ``name`` the newest that is offered. With its packages.

        Raises ``NotFound``; ``NotAllowed``."""
        name, _, version = reference.partition(":")
        if version:
            return await self.get(actor, name, version)
        for image in await self.candidates(actor):
            if image.name == name and image.offered:
                return await self.get(actor, name, image.version)
        raise NotFound("image", reference)

    async def get(self, actor: Actor, name: str, version: str) -> Image:
        """With its packages. Raises ``NotFound``, ``NotAllowed``."""
        return _shown(await self._allowed(Action.IMAGE_READ, actor, name, version), actor)

    async def register(self, actor: Actor, new: NewImage) -> Image:
        """Take a version in and offer it; of a version that is there, take in further artifacts.
        Every file is read through, which takes its time.

        Raises:
            NotAllowed: the actor is no administrator.
            InvalidInput: a file is not what it must be, or there are two for one runtime.
            NotFound: there is no such project.
            Conflict: the version has another content already.
        """
        require(Action.IMAGE_ADMINISTER, actor, "image", new.name, project=_any_project(actor))
        runtimes = [each.runtime for each in new.artifacts]
        if len(set(runtimes)) < len(runtimes):
            raise InvalidInput.field(
                "artifacts", "one runtime is there twice", value=", ".join(runtimes)
            )
        artifacts = []
        for index, claim in enumerate(new.artifacts):
            artifact = Artifact.model_validate(claim.model_dump())
            where = f"artifacts.{index}.path"
            artifacts.append(await asyncio.to_thread(self._files.checked, artifact, where))
        now = self._clock()
        image = Image(
            name=new.name,
            version=new.version,
            description=new.description,
            apps=dict(new.apps),
            needs=new.needs,
            env=dict(new.env),
            artifacts=tuple(artifacts),
            packages=tuple(Package.model_validate(each.model_dump()) for each in new.packages),
            projects=tuple(sorted(set(new.projects))),
            created_at=now,
            created_by=actor.name,
            verified_at=now,
        )
        return await self._store.add_image(image, actor=actor.name)

    async def change(
        self,
        actor: Actor,
        name: str,
        version: str,
        *,
        state: ImageState | None = None,
        projects: Collection[str] | None = None,
    ) -> Image:
        """Retire it or offer it again; say whose members see it (none: everybody).

        Raises ``NotFound``, also for a project; ``NotAllowed``."""
        await self._allowed(Action.IMAGE_ADMINISTER, actor, name, version)
        return await self._store.set_image(
            name, version, state=state, projects=projects, actor=actor.name
        )

    async def note_verification(
        self, actor: Actor, name: str, version: str, damage: str | None
    ) -> Image:
        """Keep what a verification found; a damaged image is not offered until one finds it well.

        Raises ``NotFound``, ``NotAllowed``."""
        await self._allowed(Action.IMAGE_ADMINISTER, actor, name, version)
        return await self._store.set_image(
            name, version, verified_at=self._clock(), damage=damage, actor=actor.name
        )

    async def remove(self, actor: Actor, name: str, version: str) -> Sequence[Artifact]:
        """Take a retired or damaged one out of the catalogue. Its files stay: what they were.

        Raises ``NotFound``; ``NotAllowed``; ``Conflict`` while it is offered or a job uses it."""
        await self._allowed(Action.IMAGE_ADMINISTER, actor, name, version)
        return await self._store.remove_image(name, version, actor=actor.name)

    async def _allowed(self, action: Action, actor: Actor, name: str, version: str) -> Image:
        reference = f"{name}:{version}"
        # Whoever may not read at all learns nothing of what there is.
        require(Action.IMAGE_READ, actor, "image", reference, project=_any_project(actor))
        image = await self._store.image(name, version)
        require(action, actor, "image", reference, project=_common_project(actor, image))
        return image


def _any_project(actor: Actor) -> str | None:
    return next(iter(sorted(actor.projects)), None)


def _common_project(actor: Actor, image: Image) -> str | None:
    """A project by which the actor sees the image: of an image for everybody, any of the actor's."""
    if not image.projects:
        return _any_project(actor)
    return next((name for name in image.projects if name in actor.projects), image.projects[0])


def _sees(actor: Actor, image: Image) -> bool:
    return decide(Action.IMAGE_READ, actor, project=_common_project(actor, image)).visible


def _shown(image: Image, actor: Actor) -> Image:
    """The image without the names of projects that are none of the actor's business."""
    if actor.is_admin:
        return image
    mine = tuple(name for name in image.projects if name in actor.projects)
    return image.model_copy(update={"projects": mine})
