"""Datasets: data that jobs read, each version with a checksum for every file."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from aitne.core.models.base import Frozen, ProjectName, Strict, UserName, UtcTime

DATASET_NAME = r"^[a-z0-9][a-z0-9_.-]{0,59}$"
DATASET_VERSION = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$"
_REFERENCE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,59}(:[A-Za-z0-9][A-Za-z0-9_.+-]{0,63})?")

DatasetName = Annotated[str, Field(pattern=DATASET_NAME)]
DatasetVersion = Annotated[str, Field(pattern=DATASET_VERSION)]
DatasetReference = Annotated[str, Field(pattern=f"^{_REFERENCE.pattern}$", examples=["div2k:1.0"])]
"""Reference to a dataset: ``name:version``, or ``name`` for the newest version."""
ManifestDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class DatasetFile(Strict):
    """Description of a dataset to be added to the catalogue, as a user writes it."""

    name: DatasetName
    version: DatasetVersion
    description: str = Field("", max_length=2_000)
    licence: str = Field("", max_length=200)
    """Licence or other terms under which the dataset may be used."""
    path: str = Field(
        pattern=r"^/[^\x00-\x1f\x7f]{1,4000}$", description="Absolute path on the cluster."
    )
    project: ProjectName | None = Field(
        None,
        description="First project whose members may read it; omitted: the user's default project.",
    )


class Dataset(Frozen):
    """One version of a dataset in the catalogue. It exists only after its manifest was uploaded."""

    name: DatasetName
    version: DatasetVersion
    description: str = ""
    licence: str = ""
    """Licence or other terms under which the dataset may be used."""
    owner: UserName
    path: str
    size_bytes: int = Field(ge=0)
    files: int = Field(ge=0)
    manifest: ManifestDigest
    """SHA-256 digest of the manifest's text (``core.dataset_manifest``), which identifies the stored
    manifest.
    """
    projects: tuple[ProjectName, ...] = ()
    """Projects whose members may read the dataset, in addition to its owner."""
    created_at: UtcTime
    verified_at: UtcTime | None = None
    verified_by: UserName | None = None
    damaged_files: int | None = None
    """Number of paths that differed, were missing or were additional in the last verification;
    None: it was never verified.
    """
    retired: bool = False
    """Whether new jobs cannot name the dataset any more."""

    @property
    def reference(self) -> str:
        """The reference ``name:version`` of the dataset."""
        return f"{self.name}:{self.version}"


class DatasetUse(Frozen):
    """Version of a dataset that a job reads, chosen when the job is created."""

    name: DatasetName
    version: DatasetVersion
    path: str
    manifest: ManifestDigest
    """Digest of the manifest, which lists the files of this version."""


def split_reference(text: str) -> tuple[str, str | None]:
    """Return name and version of ``name[:version]``; the version is None if the text has none.

    Raises ``ValueError`` if the text has another form.
    """
    if _REFERENCE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a dataset: write name or name:version")
    name, _, version = text.partition(":")
    return name, version or None
