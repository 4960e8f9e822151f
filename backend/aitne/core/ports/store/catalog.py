"""Part of the store for images and datasets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from aitne.core.models.dataset import Dataset
from aitne.core.models.image import Artifact, Image, ImageState


class CatalogStore(Protocol):
    """Storage of the catalogue: images and datasets, one row for each version.

    Every change appends an event ``image.changed`` or ``dataset.changed`` for the users who may see
    the image or dataset.
    """

    async def add_image(self, image: Image, *, actor: str) -> Image:
        """Add a version of an image with its artifacts. If the version exists, add those artifacts
        that it lacks. Return the version as it is afterwards.

        Raises:
            Conflict: the version has an artifact of the same runtime with another digest.
        """
        ...

    async def images(self) -> Sequence[Image]:
        """Return all images, without their packages, by name and newest version first."""
        ...

    async def image(self, name: str, version: str) -> Image:
        """Return the image with its packages. Raises ``NotFound``."""
        ...

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
        """Change those fields of the image whose arguments are not None, and return the image.

        ``damage`` is written only together with ``verified_at``; None then means that the
        verification found no damage. Without ``verified_at``, ``damage`` is ignored. Raises
        ``NotFound`` if the image or a project does not exist.
        """
        ...

    async def remove_image(self, name: str, version: str, *, actor: str) -> Sequence[Artifact]:
        """Remove the version of the image from the catalogue; return the artifacts that it had.

        Raises:
            NotFound: there is no such version.
            Conflict: the version is still offered to users, or a job that has not ended uses it.
        """
        ...

    async def add_dataset(self, dataset: Dataset, *, actor: str) -> None:
        """Add a version of a dataset. The name of a dataset belongs to the owner of its first
        version.

        Raises:
            Conflict: the version exists already, or the name belongs to another owner.
            NotFound: there is no such project.
        """
        ...

    async def datasets(self, *, visible_to: str | None) -> Sequence[Dataset]:
        """List datasets by name and newest first. With ``visible_to``, only those that the user
        owns or may read as member of a project.
        """
        ...

    async def dataset(self, name: str, version: str | None) -> Dataset:
        """Return the dataset; if ``version`` is None, the newest version that is not retired.
        Raises ``NotFound``."""
        ...

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
        """Permit (``grant``) and forbid (``revoke``) projects to read the dataset, and change those
        fields whose arguments are not None.

        Raises ``NotFound`` if the dataset or a project does not exist.
        """
        ...
