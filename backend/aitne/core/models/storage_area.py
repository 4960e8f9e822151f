"""Storage areas of users (home, scratch and project folders), and their properties as reported by a
file system.
"""

from __future__ import annotations

import errno
import os
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from aitne.core.models.base import Frozen, deprecated_copy

NO_ANSWER = "its file system does not answer"
"""Message of ``problem`` if the file system of a path does not answer."""
_NOTHING_THERE = os.strerror(errno.ENOENT)


class AreaKind(StrEnum):
    """Kind of a storage area: whether it belongs to a user or to a project."""

    USER = "user"
    """One folder per user."""
    PROJECT = "project"
    """One folder per project, shared by its members."""


class Quota(Frozen):
    """Quota of a user or project on a file system: limits of bytes and files, and how
    much is used.
    """

    used_bytes: int | None = Field(None, ge=0)
    """Number of bytes in use; None: unknown."""
    limit_bytes: int | None = Field(None, ge=0)
    """Maximum number of bytes; None: no limit."""
    used_files: int | None = Field(None, ge=0)
    """Number of files in use; None: unknown."""
    limit_files: int | None = Field(None, ge=0)
    """Maximum number of files; None: no limit."""


class Striping(Frozen):
    """Distribution of a file's content over the targets of a parallel file system."""

    pattern: str
    """Method of distribution in the file system's own terms, such as ``raid0`` or ``mirror``."""
    chunk_bytes: int | None = None
    """Number of consecutive bytes of a file on one target; None: unknown."""
    targets: int | None = None
    """Number of targets over which a new file in this folder is distributed; None: unknown."""
    pool: str | None = None
    """Name of the storage pool for new files; None: unknown."""


class StorageTarget(Frozen):
    """Storage target of a parallel file system: a device that stores parts of files."""

    name: str
    state: str
    """State in the file system's own terms, such as ``Online/Good``."""
    total_bytes: int | None = None
    """Capacity of the target in bytes."""
    free_bytes: int | None = None
    """Free space of the target in bytes."""


class Area(Frozen):
    """Storage area: a folder of a user or project, and the adapter of its storage system."""

    name: str
    """Name of the area, such as ``home`` or ``scratch``."""
    kind: AreaKind
    """Kind of the area: a folder of a user or of a project."""
    path: str
    adapter: str = "posix"
    """Name of the storage adapter, such as ``posix``, ``nfs`` or ``beegfs``."""
    project: str | None = None
    """Name of the project, for a project's folder; None otherwise."""
    mount: str | None = None
    """Mount point of its file system, if the site has configured it; None otherwise."""


class AreaFacts(Frozen):
    """State of a storage area. A value that could not be determined is None, and ``problem``
    contains the reason.
    """

    area: Area
    """Storage area that is described."""
    available: bool
    """Whether the folder exists and its file system is mounted."""
    writable: bool = False
    """Whether the user may write to the folder."""
    file_system: str | None = None
    """Type of the file system, such as ``ext4``, ``nfs4`` or ``beegfs``; None: unknown."""
    total_bytes: int | None = None
    """Size of the file system in bytes."""
    free_bytes: int | None = None
    """Free space of the file system in bytes."""
    user_quota: Quota | None = None
    """The user's quota; None: there is none, or it is unknown."""
    project_quota: Quota | None = None
    """The project's quota; None: there is none, or it is unknown."""
    striping: Striping | None = None
    """Distribution of files in the folder; None if it is not on a parallel file system."""
    targets: tuple[StorageTarget, ...] = ()
    """Targets on which a parallel file system stores files of the folder; empty otherwise."""
    problem: str | None = None
    """Sentence about a problem, or about a value that could not be determined; None if there is
    none.
    """
    there: ClassVar = deprecated_copy("available", bool)


class PathFacts(Frozen):
    """Properties of a path, as one account sees it."""

    path: str
    real_path: str | None = None
    """Path with symbolic links resolved; None if the path does not exist."""
    kind: str | None = None
    """Kind of object: ``file``, ``folder`` or ``other``; None if the path does not exist."""
    readable: bool = False
    """Whether the account may read the path."""
    writable: bool = False
    """Whether the account may write to the path."""
    size_bytes: int | None = None
    """Size in bytes; None: unknown."""
    mtime_ns: int | None = None
    """Modification time in nanoseconds since 1970; None: unknown."""
    commit: str | None = None
    """Commit that is checked out, if the path is the top folder of a git working copy; None
    otherwise.
    """
    problem: str | None = None
    """Reason why the path cannot be examined or read, in the words of the operating system; None if
    it can.
    """

    @property
    def is_missing(self) -> bool:
        """Return whether the path is known not to exist. False if the file system does not
        answer.
        """
        return self.kind is None and self.problem == _NOTHING_THERE

    @property
    def has_answer(self) -> bool:
        """Return whether the file system answered."""
        return self.problem != NO_ANSWER
