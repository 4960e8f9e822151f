"""Models of the API's requests and responses for images and datasets."""

from __future__ import annotations

from pydantic import Field

from aitne.core.models.base import Flag, Frozen, ProjectName, Strict
from aitne.core.models.dataset import Dataset, ManifestDigest
from aitne.core.models.image import Artifact, Image, ImageState


class ImageList(Frozen):
    """Images by name, newest version first, without their packages."""

    items: list[Image]


class ImageChanges(Strict):
    """Changes of an image; omitted fields keep their values."""

    state: ImageState | None = Field(None, description="Retire it, or offer it again.")
    projects: list[ProjectName] | None = Field(
        None,
        max_length=1_000,
        description="Only for members of these projects; empty: for all users.",
    )


class ImageVerification(Strict):
    """Result of a verification of an image."""

    damage: str | None = Field(
        min_length=1, max_length=2_000, description="The damage, as a sentence; null: none."
    )


class ArtifactList(Frozen):
    """Artifacts of an image that was deleted."""

    items: list[Artifact]


class DatasetList(Frozen):
    """Versions of datasets by name, newest first."""

    items: list[Dataset]


class DatasetChanges(Strict):
    """Changes of one version of a dataset."""

    retired: Flag = Field(description="Whether new jobs cannot use it.")


class DatasetVerification(Strict):
    """Result of a verification of a dataset."""

    manifest: ManifestDigest = Field(description="The manifest that the files were compared with.")
    damaged_files: int = Field(
        ge=0, le=1 << 62, description="Number of missing or different files."
    )


class ManifestSummary(Frozen):
    """Summary of a manifest: digest, numbers of files and links, size."""

    digest: ManifestDigest
    """Identifier of the manifest: the SHA-256 of its content."""
    files: int
    links: int
    """Number of symbolic links."""
    size_bytes: int = Field(description="Size of the files in bytes.")
