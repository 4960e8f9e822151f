"""Files of the catalogue's objects that the platform stores, or checks before it accepts them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Protocol

from aitne.core.datasets import Summary
from aitne.core.models.image import Artifact


class Manifests(Protocol):
    """Keeps datasets' manifests, packed, by the digest of their text.

    An upload waits, for its user alone, until it is kept for a dataset that names it.
    """

    async def receive(
        self, user: str, digest: str, chunks: AsyncIterator[bytes], used: Collection[str]
    ) -> Summary:
        """Store an upload if it is complete, valid and has ``digest``; else store nothing. ``used``
        are the digests that datasets name; others may be removed when they are old.

        Raises:
            ManifestError: the upload is no manifest, or too large.
            InvalidInput: the upload has another digest.
            RateLimited: the user, or too many others, are uploading at this moment.
            Unavailable: the disk is full or cannot be written.
        """
        ...

    async def find(self, user: str, digest: str, *, kept: bool) -> Summary | None:
        """Return the summary of a manifest, or None if there is none.

        Searched are the user's uploads that no dataset refers to yet; with ``kept``, also the
        manifests that are kept for datasets.

        Raises:
            Unavailable: the disk cannot be read.
        """
        ...

    async def keep(self, user: str, digest: str) -> None:
        """Keep the user's upload for good: a dataset is about to name it.

        Raises:
            Unavailable: the disk cannot be written.
        """
        ...

    def path(self, digest: str) -> Path:
        """Return the path of a stored manifest. Blocking.

        Raises:
            Unavailable: the file is missing.
        """
        ...


class ImageFiles(Protocol):
    """Check of image files."""

    def checked(self, claim: Artifact, field: str) -> Artifact:
        """Return the artifact with its size and time as its file has them, if the file is what is
        claimed.

        Blocking: it reads the whole file. An artifact without a path is in its runtime's own store,
        which knows it by the digest.

        Raises:
            InvalidInput: the file lies outside the images' folder, is no regular file, could be
                changed by others than the platform and root, cannot be read, or has another digest.
                ``field`` is the field that the error names.
        """
        ...
