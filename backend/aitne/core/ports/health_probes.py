"""Checks of other processes and of folders, from the API's process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FilesystemSpace:
    """Size of a file system, and what the platform's processes may still use of it."""

    size_bytes: int
    free_bytes: int
    inodes: int
    """Number of inodes; 0 if the file system has no fixed number."""
    free_inodes: int


class Probes(Protocol):
    """Port for short health checks of other processes and of folders, each with a time limit. All
    methods raise ``Unavailable`` with the reason if the check fails.
    """

    async def check_http(self, url: str) -> None:
        """Check that a server answers at ``url`` without a server error (5xx)."""
        ...

    async def check_socket(self, path: Path) -> None:
        """Check that a process listens at the UNIX socket ``path``."""
        ...

    async def get_certificate_validity(self, host: str, port: int) -> tuple[datetime, datetime]:
        """Return the validity period of the certificate that the server presents for ``host``,
        trusted or not.
        """
        ...

    async def check_folder(self, path: Path) -> None:
        """Check that the folder exists; a file system that hangs does not block the caller."""
        ...

    async def measure_space(self, path: Path) -> tuple[int, int]:
        """Return two numbers of bytes of the file system that contains ``path``: those that the
        platform's processes may still use, and the total.
        """
        ...

    async def measure_filesystems(
        self, folders: Mapping[str, Path]
    ) -> Mapping[str, FilesystemSpace]:
        """Return the space of the file system of each folder, by the names given.

        Folders that are missing or whose file system hangs are omitted; this never raises.
        """
        ...
