"""Maintenance of the catalogue's images: import checks, verification, garbage collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from aitne.adapters.images import image_folder, layer_cache
from aitne.adapters.images.docker_daemon import DOCKER, DockerDaemon
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
    from aitne.client.images import ImageRecord
    from aitne.core.settings import Settings


def list_matching_images(images: Sequence[ImageRecord], reference: str | None) -> list[ImageRecord]:
    """Return the images that ``reference`` selects: all (None), those of one name, or one version.
    Raises ``NotFound`` if there are none."""
    matches = [
        image for image in images if reference is None or reference in (image.name, image.reference)
    ]
    if reference is not None and not matches:
        raise NotFound("image", reference)
    return matches


def find_damage(image: ImageRecord, daemon: DockerDaemon) -> str | None:
    """Compare the files of an image with their digests. Return the damage as a sentence; None: the
    files are intact.

    Raises:
        SetupError: the files could not be checked, because Docker does not answer or a file cannot be
            read.
    """

    def report_progress(done_bytes: int, size: int) -> None:
        output.print_message(
            f"{output.format_memory(done_bytes)} of {output.format_memory(size)} read"
        )

    for artifact in image.artifacts:
        if artifact.runtime == DOCKER:
            if not daemon.has_image(artifact.digest):
                return f"Docker has no image {artifact.digest}."
        elif wrong := image_folder.find_damage(
            Artifact.model_validate(artifact.raw), report_progress
        ):
            return wrong
    return None


@dataclass(frozen=True, slots=True)
class GarbageCandidates:
    """Images, files and layers that garbage collection could remove. Whether jobs use the images is
    checked later."""

    retired: tuple[ImageRecord, ...]
    files: tuple[image_folder.Leftover, ...]
    layers: tuple[image_folder.Leftover, ...]
    scratch: tuple[image_folder.Leftover, ...]
    """Temporary files of killed processes."""

    @property
    def size_bytes(self) -> int:
        """Return the size of all candidates in bytes."""
        images = sum(a.size_bytes for image in self.retired for a in image.artifacts)
        return images + sum(
            leftover.size_bytes for leftover in (*self.files, *self.layers, *self.scratch)
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return a description and a size for each kind of candidate, to be shown to the user."""
        images = [
            (
                f"retired: {image.reference}",
                output.format_memory(sum(a.size_bytes for a in image.artifacts)),
            )
            for image in self.retired
        ]
        named = (
            ("belongs to no image", self.files),
            ("old layer", self.layers),
            ("left by a killed process", self.scratch),
        )
        rest = [
            (f"{what}: {leftover.path}", output.format_memory(leftover.size_bytes))
            for what, group in named
            for leftover in group
        ]
        return images + rest


def find_garbage(images: Sequence[ImageRecord], settings: Settings) -> GarbageCandidates:
    """Return the images and files that garbage collection could remove."""
    return GarbageCandidates(
        retired=tuple(image for image in images if image.state == ImageState.RETIRED),
        files=tuple(_list_unknown_files(images, settings)),
        layers=tuple(
            image_folder.Leftover(path, image_folder.size_of(path))
            for path in layer_cache.find_stale_folders()
        ),
        scratch=tuple(image_folder.find_abandoned(settings.containers.tmp_dir)),
    )


def _list_unknown_files(
    images: Sequence[ImageRecord], settings: Settings
) -> list[image_folder.Leftover]:
    known_paths = {Path(a.path) for image in images for a in image.artifacts if a.path}
    return image_folder.ImageFolder(settings.images_dir).find_leftovers(known_paths)


def remove_garbage(
    candidates: GarbageCandidates, client: Client, settings: Settings
) -> dict[str, Any]:
    """Remove the candidates and return the result as a dictionary for JSON. An image that a job
    uses is kept, and listed as such.

    Raises:
        SetupError: this process may not remove a file.
    """
    removed, in_use, freed = [], [], 0
    folder = image_folder.ImageFolder(settings.images_dir)
    daemon = DockerDaemon(settings.containers.docker_url, settings.containers.tmp_dir)
    try:
        for image in candidates.retired:
            try:
                artifacts = client.images.remove(image.reference)
            except Conflict as error:
                output.print_message(f"{image.reference} is kept: {error.message}")
                in_use.append(image.reference)
                continue
            removed.append(image.reference)
            # An artifact of several versions is kept until the last of them is removed.
            still_used = {
                (a.digest, a.path) for other in client.images.list() for a in other.artifacts
            }
            for artifact in artifacts:
                if (artifact.digest, artifact.path) in still_used:
                    continue
                if artifact.runtime == DOCKER:
                    daemon.remove_image(artifact.digest)
                    freed += artifact.size_bytes
                elif artifact.path is not None and folder.contains(Path(artifact.path)):
                    freed += image_folder.remove_path(Path(artifact.path))
        # The confirmation may have taken long: an image may have been registered meanwhile.
        unknown = {
            leftover.path for leftover in _list_unknown_files(client.images.list(), settings)
        }
        files = [leftover for leftover in candidates.files if leftover.path in unknown]
        for leftover in (*files, *candidates.layers, *candidates.scratch):
            freed += image_folder.remove_path(leftover.path)
            removed.append(str(leftover.path))
    except OSError as error:
        raise SetupError(
            f"{error.filename} cannot be removed: {error.strerror}. Run this as root; the next "
            "`aitne admin image gc` finds the files that the catalogue no longer lists."
        ) from error
    return {"removed": removed, "kept": in_use, "freed_bytes": freed}


def check_import(name: str, version: str, digest: str | None, cuda: str | None) -> None:
    """Check name, version, digest and CUDA version of an image to be imported. Raises
    ``InvalidInput``."""
    for field, value, pattern, allowed in (
        ("NAME", name[:61], IMAGE_NAME, "a-z and 0-9, with . _ - between them, at most 60"),
        ("--version", version, IMAGE_VERSION, "letters, digits and . _ + -, at most 64"),
        ("--digest", digest, DIGEST, "sha256: and 64 hexadecimal digits"),
        ("--cuda", cuda, CUDA_VERSION, "such as 12.6"),
    ):
        if value is not None and (re.fullmatch(pattern, value) is None or len(name) > 60):
            raise InvalidInput.field(field, "is not valid", value=value, allowed=allowed)


def list_imported_apps(python: str | None) -> dict[str, ImageApp]:
    """Return the apps of an imported image in which the interpreter ``python`` has JupyterLab;
    empty if it is None. Raises ``InvalidInput``."""
    if python is None:
        return {}
    try:
        return {"lab": ImageApp(python=python)}
    except ValidationError as error:
        raise InvalidInput.field(
            "--python", "is not a path in an image", value=python, allowed="an absolute path"
        ) from error
