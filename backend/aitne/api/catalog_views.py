"""What the API is told about images and datasets, and its lists of them."""

from __future__ import annotations

from pydantic import Field

from aitne.core.models.base import Flag, Frozen, ProjectName, Strict
from aitne.core.models.dataset import Dataset, ManifestDigest
from aitne.core.models.image import Artifact, Image, ImageState


class ImageList(Frozen):
    """Images by name, newest first, without their packages."""

    items: list[Image]


class ImageChanges(Strict):
    """What is not given stays as it is."""

    state: ImageState | None = Field(None, description="Retire it, or offer it again.")
    projects: list[ProjectName] | None = Field(
        None, max_length=1_000, description="Whose members see it; an empty list: everybody."
    )


class ImageVerification(Strict):
    """What a verification of an image found."""

    damage: str | None = Field(
        min_length=1, max_length=2_000, description="What is wrong, as a sentence; null: nothing."
    )


class ArtifactList(Frozen):
    """What an image's artifacts were."""

    items: list[Artifact]


class DatasetList(Frozen):
    """Versions of datasets by name, newest first."""

    items: list[Dataset]


class DatasetChanges(Strict):
    """What can be changed of a version."""

    retired: Flag = Field(description="Whether new jobs may not name it.")


class DatasetVerification(Strict):
    """What a verification of a dataset found."""

    manifest: ManifestDigest = Field(description="The manifest that the files were compared with.")
    damaged_files: int = Field(ge=0, le=1 << 62, description="How many were missing or differed.")


class ManifestSummary(Frozen):
    """What a manifest amounts to."""

    digest: ManifestDigest
    """What names the manifest: SHA-256 of its content."""
    files: int
    links: int
    """How many symbolic links it has."""
    size_bytes: int = Field(description="Of the files.")
