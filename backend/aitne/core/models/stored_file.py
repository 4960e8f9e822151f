"""Files and folders of a file system as the platform shows them."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime


class FileKind(StrEnum):
    """Kind of an entry of a folder. For a link it is the kind of what the link leads to."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """Pipe, device or socket, which is never opened, or a link that leads nowhere."""


class StoredFile(Frozen):
    """Entry of a folder."""

    name: str = Field(
        description="Name for people: what cannot be shown in one line is replaced by U+FFFD."
    )
    path: str = Field(
        description="Name as a percent-encoded segment of an address, which is exact for each name."
    )
    kind: FileKind = Field(description="Kind; for a link the kind of what it leads to.")
    link: bool = Field(False, description="Whether the entry is a symbolic link.")
    size_bytes: int | None = Field(None, description="Size of a file; null for other kinds.")
    modified_at: UtcTime | None = Field(
        None, description="Time of the last change, by the file system's clock; null: unknown."
    )
    etag: str | None = Field(
        None, description="Entity tag of a file, which changes with its content; null otherwise."
    )


class FileList(Frozen):
    """One page of the entries of a folder, in the order of their names' bytes."""

    items: tuple[StoredFile, ...]
    next_cursor: str | None = Field(
        None, description="Value of `cursor` for the next page; null: this is the last page."
    )


def make_file_version(device: int, inode: int, size: int, mtime_ns: int, ctime_ns: int) -> str:
    """Return the version of a file, a word that changes when the file is written or replaced."""
    facts = f"{device}:{inode}:{size}:{mtime_ns}:{ctime_ns}"
    return hashlib.sha256(facts.encode()).hexdigest()[:32]
