"""Files of the catalogue: manifests that the platform stores, and image files that it checks before
accepting them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Protocol

from aitne.core.dataset_manifest import Summary
from aitne.core.models.image import Artifact


class Manifests(Protocol):
    """Storage of the manifests of datasets, compressed, by the digest of their text.

    An uploaded manifest is at first visible to its user only; ``make_permanent`` makes it permanent when a
    dataset refers to it.
    """

    async def receive(
        self, user: str, digest: str, chunks: AsyncIterator[bytes], used: Collection[str]
    ) -> Summary:
        """Store an uploaded manifest and return its summary; store nothing if it is incomplete,
        invalid or does not have ``digest``.

        ``used`` are the digests to which datasets refer; old manifests with other digests may be
        deleted.

        Raises:
            ManifestError: the upload is not a manifest, or is too large.
            InvalidInput: the upload has another digest.
            RateLimited: the user, or too many users, are uploading at this moment.
            Unavailable: the disk is full or cannot be written.
        """
        ...

    async def find_summary(self, user: str, digest: str, *, kept: bool) -> Summary | None:
        """Return the summary of the manifest with the digest; None if there is none.

        The user's uploads that no dataset refers to yet are searched and, with ``kept``, also the
        manifests of datasets.

        Raises:
            Unavailable: the disk cannot be read.
        """
        ...

    async def make_permanent(self, user: str, digest: str) -> None:
        """Make the user's uploaded manifest permanent, before a dataset refers to it.

        Raises:
            Unavailable: the disk cannot be written.
        """
        ...

    def get_path(self, digest: str) -> Path:
        """Return the path of the stored manifest with the digest. Blocking.

        Raises:
            Unavailable: the file is missing.
        """
        ...


class ImageFiles(Protocol):
    """Port that compares image files with their description in a registration."""

    def check_artifact(self, claim: Artifact, field: str) -> Artifact:
        """Check that the file of the artifact ``claim`` has the digest in it; return the artifact
        with the size and time of the file.

        ``field`` is the name of the field in errors. Blocking, because the whole file is read. An
        artifact without a path is not checked: the runtime's own store contains it under the
        digest.

        Raises:
            InvalidInput: the file is outside the images' folder, is not a regular file, could be
                changed by other accounts than the platform's and root, cannot be read, or has
                another digest.
        """
        ...
