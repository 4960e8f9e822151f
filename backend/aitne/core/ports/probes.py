"""Checks of the processes and files beside the API, from the API's process."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Probes(Protocol):
    """Short checks, each with its own time limit. All raise ``Unavailable`` with the reason."""

    async def http(self, url: str) -> None:
        """Check that a server answers there without a server error (5xx)."""
        ...

    async def socket(self, path: Path) -> None:
        """Check that a process listens at this socket of the file system."""
        ...

    async def folder(self, path: Path) -> None:
        """Check that the folder is there; a file system that hangs does not block the check."""
        ...

    async def space(self, path: Path) -> tuple[int, int]:
        """Return the free bytes for this process, and the total bytes, of the folder's file
        system."""
        ...
