"""Where users keep files: home, scratch and project folders, and what a file system says of them."""

from __future__ import annotations

import errno
import os
from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen

_NOTHING_THERE = os.strerror(errno.ENOENT)


class AreaKind(StrEnum):
    """Whose an area is."""

    USER = "user"
    """One folder per user."""
    PROJECT = "project"
    """One folder per project, shared by its members."""


class Quota(Frozen):
    """How much of a file system somebody may use, and how much of that is used."""

    used_bytes: int | None = Field(None, ge=0)
    """How much is used, in bytes."""
    limit_bytes: int | None = Field(None, ge=0)
    """None: no limit."""
    used_files: int | None = Field(None, ge=0)
    """How many files there are."""
    limit_files: int | None = Field(None, ge=0)
    """None: no limit."""


class Striping(Frozen):
    """How a parallel file system spreads a file's content."""

    pattern: str
    """How content is spread, in the file system's word: ``raid0``, ``mirror``, …"""
    chunk_bytes: int | None = None
    """So many bytes lie on one target before the next."""
    targets: int | None = None
    """How many targets a new file in this folder is spread over."""
    pool: str | None = None
    """The storage pool that new files go to."""


class StorageTarget(Frozen):
    """One place that a parallel file system keeps content at."""

    name: str
    state: str
    """In the file system's own words, such as ``Online/Good``."""
    total_bytes: int | None = None
    """How much fits."""
    free_bytes: int | None = None
    """How much still fits."""


class Area(Frozen):
    """A user's or project's folder."""

    name: str
    """``home``, ``scratch``, …"""
    kind: AreaKind
    """Whose it is."""
    path: str
    adapter: str = "posix"
    """What looks after it: ``posix``, ``nfs``, ``beegfs``, …"""
    project: str | None = None
    """Of a project's folder: which one."""
    mount: str | None = None
    """The mount point it lies on, where a site named one."""


class AreaFacts(Frozen):
    """What was found at an area. What could not be found out is None, and ``problem`` says why."""

    area: Area
    """The folder."""
    there: bool
    """Whether the folder is there, on a file system that is mounted."""
    writable: bool = False
    """Whether its user may write there."""
    file_system: str | None = None
    """``ext4``, ``nfs4``, ``beegfs``, …"""
    total_bytes: int | None = None
    """How large the file system is."""
    free_bytes: int | None = None
    """How much of that is free."""
    user_quota: Quota | None = None
    """What holds for the user; None: nothing, or nobody says."""
    project_quota: Quota | None = None
    """What holds for the project; None: nothing, or nobody says."""
    striping: Striping | None = None
    """None: not a parallel file system."""
    targets: tuple[StorageTarget, ...] = ()
    """Where a parallel file system keeps the content."""
    problem: str | None = None
    """What is wrong or could not be asked, as a sentence."""


class PathFacts(Frozen):
    """What is at a path, seen as one account."""

    path: str
    real_path: str | None = None
    """With symbolic links followed; None: there is nothing."""
    kind: str | None = None
    """``file``, ``folder``, ``other``; None: there is nothing."""
    readable: bool = False
    writable: bool = False
    size_bytes: int | None = None
    mtime_ns: int | None = None
    commit: str | None = None
    """What is checked out, of the top folder of a git working copy."""
    problem: str | None = None
    """Why it cannot be looked at or read, in the system's words."""

    @property
    def nothing_there(self) -> bool:
        """Whether the system said so; a file system that does not answer has said nothing."""
        return self.kind is None and self.problem == _NOTHING_THERE
