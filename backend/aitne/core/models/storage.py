"""Storage areas of users (home, scratch and project folders) and the facts that a file system
reports about them."""

from __future__ import annotations

import errno
import os
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from aitne.core.models.base import Frozen, deprecated_copy

NO_ANSWER = "its file system does not answer"
"""Problem of a path whose file system hangs."""
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
    """Amount that is used, in bytes."""
    limit_bytes: int | None = Field(None, ge=0)
    """None: no limit."""
    used_files: int | None = Field(None, ge=0)
    """Number of files that exist."""
    limit_files: int | None = Field(None, ge=0)
    """None: no limit."""


class Striping(Frozen):
    """Distribution of a file's content over the targets of a parallel file system."""

    pattern: str
    """Pattern by which content is spread, in the file system's own term: ``raid0``, ``mirror``,
    …"""
    chunk_bytes: int | None = None
    """Number of bytes that lie on one target before the next."""
    targets: int | None = None
    """Number of targets over which a new file in this folder is spread."""
    pool: str | None = None
    """The storage pool that new files go to."""


class StorageTarget(Frozen):
    """Storage target of a parallel file system: a device that stores parts of files."""

    name: str
    state: str
    """In the file system's own words, such as ``Online/Good``."""
    total_bytes: int | None = None
    """Capacity of the target in bytes."""
    free_bytes: int | None = None
    """Free space of the target in bytes."""


class Area(Frozen):
    """Storage area: a folder of a user or project, and the adapter of its storage system."""

    name: str
    """``home``, ``scratch``, …"""
    kind: AreaKind
    """Kind of its owner."""
    path: str
    adapter: str = "posix"
    """Adapter that serves it: ``posix``, ``nfs``, ``beegfs``, …"""
    project: str | None = None
    """Project of a project's folder."""
    mount: str | None = None
    """The mount point it lies on, where a site named one."""


class AreaFacts(Frozen):
    """Facts about a storage area. A fact that could not be determined is None, and ``problem``
    states why.
    """

    area: Area
    """The folder."""
    available: bool
    """Whether the folder exists, on a file system that is mounted."""
    writable: bool = False
    """Whether its user may write there."""
    file_system: str | None = None
    """``ext4``, ``nfs4``, ``beegfs``, …"""
    total_bytes: int | None = None
    """Size of the file system in bytes."""
    free_bytes: int | None = None
    """Free space of the file system in bytes."""
    user_quota: Quota | None = None
    """The user's quota; None: there is none, or it is unknown."""
    project_quota: Quota | None = None
    """The project's quota; None: there is none, or it is unknown."""
    striping: Striping | None = None
    """None: not a parallel file system."""
    targets: tuple[StorageTarget, ...] = ()
    """Targets on which a parallel file system keeps the content."""
    problem: str | None = None
    """Problem, or fact that could not be determined, as a sentence."""
    there: ClassVar = deprecated_copy("available", bool)


class PathFacts(Frozen):
    """Facts about a path, as one account sees it."""

    path: str
    real_path: str | None = None
    """Path with symbolic links followed; None: there is nothing."""
    kind: str | None = None
    """``file``, ``folder``, ``other``; None: there is nothing."""
    readable: bool = False
    writable: bool = False
    size_bytes: int | None = None
    mtime_ns: int | None = None
    commit: str | None = None
    """Commit that is checked out, of the top folder of a git working copy."""
    problem: str | None = None
    """Reason why it cannot be examined or read, in the system's words."""

    @property
    def nothing_there(self) -> bool:
        """Return whether the system reported that nothing is there; False for a file system that
        does not answer."""
        return self.kind is None and self.problem == _NOTHING_THERE

    @property
    def answered(self) -> bool:
        """Return whether the file system answered."""
        return self.problem != NO_ANSWER
