"""Port of the files of trees, which users upload for their jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from typing import Protocol

from aitne.core.errors import Conflict
from aitne.core.models.tree import TreeStatus, TreeUse


class TreesFull(Conflict):
    """The trees of a user have as many bytes as they may have."""

    code = "trees_full"


class TreeStorage(Protocol):
    """Storage of trees, for each user apart: documents by digest, contents by sha256.

    A tree can be used once all of its contents are stored, and as long as it exists no content of
    it is removed.
    """

    async def receive(self, owner: str, digest: str, document: bytes) -> TreeStatus:
        """Store the document of a tree, and return which contents are missing.

        Raises:
            TreeError: it is no document of a tree, has another digest, or breaks a limit.
            TreesFull: the user's trees would have too many bytes.
            Unavailable: the disk is full or cannot be written.
        """
        ...

    async def receive_blobs(self, owner: str, digest: str, chunks: AsyncIterator[bytes]) -> None:
        """Store contents of a tree whose document was stored. Each is preceded by the line
        ``<sha256> <size in bytes>``.

        Raises:
            NotFound: there is no such document.
            TreeError: a content is not of this tree, is cut off, or has another sha256. Those
                before it are stored.
            Unavailable: the disk is full or cannot be written.
        """
        ...

    async def use(self, owner: str, digest: str) -> TreeUse | None:
        """Return a complete tree of the user, which counts as used now; None if there is none."""
        ...

    async def content(self, owner: str, digest: str) -> tuple[int, Iterator[bytes]] | None:
        """Return the length in bytes and the pieces of a complete tree: its document, a line feed,
        and the contents of its files in their order; None if there is none."""
        ...

    async def expire(
        self, in_use: Collection[tuple[str, str]], unused_s: float, *, owner: str | None = None
    ) -> None:
        """Remove the trees that were not used for that many seconds, of one user or of all, except
        those ``in_use`` (owner and digest), and uploads that were not completed within a day."""
        ...
