"""Files of users, read under the Unix account of the user and never with the platform's rights."""

from __future__ import annotations

from typing import Protocol

from aitne.core.models.base import Frozen
from aitne.core.models.stored_file import FileList, StoredFile

MAX_NAMES = 100_000
"""Maximum number of entries of a folder that is listed."""
MAX_PAGE = 1_000
"""Maximum number of entries of one page."""


class FileRoot(Frozen):
    """Folder below which files are read, with the account under which that happens."""

    account: str | None
    """Name of the Unix account; None: the platform's own, as which all jobs run."""
    folder: str
    """Absolute path of the folder."""


class AccountFiles(Protocol):
    """Port that reads files and folders below a folder with the rights of an account.

    Paths are percent-encoded (``core.path_encoding.EncodedPath``). Symbolic links are followed: the
    account could read what they lead to in any of its jobs. Only regular files are opened.

    Every method raises ``NotFound`` (there is no such entry), ``NotAllowed`` (the account may not
    read it, or the platform may not act as the account), ``Conflict`` (the entry is of another
    kind) and ``Unavailable`` (the file system or the broker does not answer).
    """

    async def get_entry(self, root: FileRoot, path: str) -> StoredFile:
        """Return the entry at ``path``."""
        ...

    async def list_folder(self, root: FileRoot, path: str, *, after: str, limit: int) -> FileList:
        """Return up to ``limit`` entries of the folder at ``path`` whose names follow ``after``;
        the empty name is before all others.

        Raises ``Conflict`` also if the folder has more than ``MAX_NAMES`` entries.
        """
        ...

    async def read_part(
        self, root: FileRoot, path: str, *, etag: str, offset: int, limit: int
    ) -> bytes:
        """Return up to ``limit`` bytes of the file at ``path``, from byte ``offset`` on.

        Raises ``ChangedMeanwhile`` if the file is not, or no longer, the one with this ``etag``, so
        that parts of two versions are never mixed.
        """
        ...
