"""Port to the stored files of trees, which users upload for their jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Protocol

from aitne.core.errors import Conflict
from aitne.core.models.job_source import TreeStatus, TreeUse


class TreesFull(Conflict):
    """Error: the trees of a user would exceed the user's quota of bytes."""

    code = "trees_full"


class TreeStorage(Protocol):
    """Storage of trees, separately for each user: documents (lists of files) by digest, file
    contents by SHA-256 digest.

    A tree can be used after all of its contents were stored; none of them is removed while the tree
    exists.
    """

    async def receive_document(
        self,
        owner: str,
        digest: str,
        chunks: AsyncIterator[bytes],
        make_room: Callable[[], Awaitable[None]],
    ) -> TreeStatus:
        """Store the document (list of files) of a tree, and return which contents are missing.

        ``make_room`` is called once if the user's trees would exceed the quota of bytes.

        Raises:
            TreeError: the document is invalid, does not have the digest ``digest``, or exceeds a
                limit.
            TreesFull: the user's trees would exceed the quota of bytes even so.
            Unavailable: the disk is full or cannot be written.
        """
        ...

    async def receive_blobs(self, owner: str, digest: str, chunks: AsyncIterator[bytes]) -> None:
        """Store contents of a tree whose document was stored. Each content is preceded by the line
        ``<sha256> <size in bytes>``.

        Raises:
            NotFound: there is no such document.
            TreeError: a content does not belong to this tree, is incomplete, or has another digest.
                The contents before it are stored.
            Unavailable: the disk is full or cannot be written.
        """
        ...

    async def find_tree(self, owner: str, digest: str) -> TreeUse | None:
        """Return a complete tree of the user and update its last-used time; None if there is
        none.
        """
        ...

    async def read_tree(self, owner: str, digest: str) -> tuple[int, Iterator[bytes]] | None:
        """Return the length in bytes and the parts of a complete tree: its document, a line feed,
        and the contents of its files in the order of the document. None if there is none.
        """
        ...

    async def remove_unused_trees(
        self, in_use: Collection[tuple[str, str]], unused_s: float, *, owner: str | None = None
    ) -> None:
        """Remove the trees of ``owner`` (None: of all users) that were not used for ``unused_s``
        seconds, except those in ``in_use`` (owner and digest), and uploads that were not completed
        within a day.
        """
        ...
