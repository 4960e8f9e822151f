"""Maintenance of the catalogue's images: import checks, verification, garbage collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from aitne.adapters.images import layers, store
from aitne.adapters.images.daemon import DOCKER, Daemon
from aitne.cli import output
from aitne.core.errors import Conflict, InvalidInput, NotFound, SetupError
from aitne.core.models.image import (
    CUDA_VERSION,
    DIGEST,
    IMAGE_NAME,
    IMAGE_VERSION,
    Artifact,
    ImageApp,
    ImageState,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.client import Client
    from aitne.client.images import Image
    from aitne.core.settings import Settings


def matching(images: Sequence[Image], reference: str | None) -> list[Image]:
    """Return all images, those of a name, or one version. Raises ``NotFound`` if none matches."""
    found = [
        image for image in images if reference is None or reference in (image.name, image.reference)
    ]
    if reference is not None and not found:
        raise NotFound("image", reference)
    return found


def damage(image: Image, daemon: Daemon) -> str | None:
    """Return the damage of an image's artifacts as a sentence; None: they are intact.

    Raises:
        SetupError: that cannot be told, because a daemon is silent or a file is closed to us.
    """

    def seen(done: int, size: int) -> None:
        output.say(f"{output.memory(done)} of {output.memory(size)} read")

    for artifact in image.artifacts:
        if artifact.runtime == DOCKER:
            if not daemon.has(artifact.digest):
                return f"Docker has no image {artifact.digest}."
        elif wrong := store.damage_of(Artifact.model_validate(artifact.raw), seen):
            return wrong
    return None


@dataclass(frozen=True, slots=True)
class Rubbish:
    """Candidates for garbage collection, before the catalogue is asked for each image."""

    retired: tuple[Image, ...]
    files: tuple[store.Leftover, ...]
    layers: tuple[store.Leftover, ...]
    scratch: tuple[store.Leftover, ...]
    """Temporary files of killed processes."""

    @property
    def size_bytes(self) -> int:
        """Return the size of all candidates in bytes."""
        images = sum(a.size_bytes for image in self.retired for a in image.artifacts)
        return images + sum(each.size_bytes for each in (*self.files, *self.layers, *self.scratch))

    def lines(self) -> list[tuple[str, str]]:
        """Return pairs of description and size for display."""
        images = [
            (
                f"retired: {image.reference}",
                output.memory(sum(a.size_bytes for a in image.artifacts)),
            )
            for image in self.retired
        ]
        named = (
            ("belongs to no image", self.files),
            ("old layer", self.layers),
            ("left by killed work", self.scratch),
        )
        rest = [
            (f"{what}: {each.path}", output.memory(each.size_bytes))
            for what, group in named
            for each in group
        ]
        return images + rest


def find(images: Sequence[Image], settings: Settings) -> Rubbish:
    """Return the images and files that could be removed."""
    return Rubbish(
        retired=tuple(image for image in images if image.state == ImageState.RETIRED),
        files=tuple(_unknown(images, settings)),
        layers=tuple(store.Leftover(path, store.size_of(path)) for path in layers.stale()),
        scratch=tuple(store.abandoned(settings.containers.tmp_dir)),
    )


def _unknown(images: Sequence[Image], settings: Settings) -> list[store.Leftover]:
    known = {Path(a.path) for image in images for a in image.artifacts if a.path}
    return store.ImageFolder(settings.images_dir).leftovers(known)


def remove(rubbish: Rubbish, client: Client, settings: Settings) -> dict[str, Any]:
    """Remove the candidates and return the result; an image that a job uses is kept, and listed as
    such.

    Raises:
        SetupError: a file cannot be removed by us.
    """
    removed, kept, freed = [], [], 0
    folder = store.ImageFolder(settings.images_dir)
    daemon = Daemon(settings.containers.docker_url, settings.containers.tmp_dir)
    try:
        for image in rubbish.retired:
            try:
                artifacts = client.images.remove(image.reference)
            except Conflict as error:
                output.say(f"{image.reference} stays: {error.message}")
                kept.append(image.reference)
                continue
            removed.append(image.reference)
            # What two versions share stays until the last of them goes.
            left = {(a.digest, a.path) for each in client.images.list() for a in each.artifacts}
            for artifact in artifacts:
                if (artifact.digest, artifact.path) in left:
                    continue
                if artifact.runtime == DOCKER:
                    daemon.remove(artifact.digest)
                    freed += artifact.size_bytes
                elif artifact.path is not None and folder.holds(Path(artifact.path)):
                    freed += store.remove(Path(artifact.path))
        # Somebody may have thought about the list for an hour: an image may have come meanwhile.
        unknown = {each.path for each in _unknown(client.images.list(), settings)}
        files = [each for each in rubbish.files if each.path in unknown]
        for each in (*files, *rubbish.layers, *rubbish.scratch):
            freed += store.remove(each.path)
            removed.append(str(each.path))
    except OSError as error:
        raise SetupError(
            f"{error.filename} cannot be removed: {error.strerror}. Run this as root; what the "
            "catalogue has forgotten is found again by the next `aitne admin image gc`."
        ) from error
    return {"removed": removed, "kept": kept, "freed_bytes": freed}


def check_import(name: str, version: str, digest: str | None, cuda: str | None) -> None:
    """Raise ``InvalidInput`` if an image can have no such name, version, digest or CUDA."""
    for field, value, pattern, allowed in (
        ("NAME", name[:61], IMAGE_NAME, "a-z and 0-9, with . _ - between them, at most 60"),
        ("--version", version, IMAGE_VERSION, "letters, digits and . _ + -, at most 64"),
        ("--digest", digest, DIGEST, "sha256: and 64 hexadecimal digits"),
        ("--cuda", cuda, CUDA_VERSION, "such as 12.6"),
    ):
        if value is not None and (re.fullmatch(pattern, value) is None or len(name) > 60):
            raise InvalidInput.field(field, "it cannot be that", value=value, allowed=allowed)


def apps_with(python: str | None) -> dict[str, ImageApp]:
    """Return the apps of an image with JupyterLab for that interpreter. Raises ``InvalidInput``."""
    if python is None:
        return {}
    try:
        return {"lab": ImageApp(python=python)}
    except ValidationError as error:
        raise InvalidInput.field(
            "--python", "it is no path in an image", value=python, allowed="an absolute path"
        ) from error
