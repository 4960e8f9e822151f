"""Looks at what runs beside the API, from the API's process."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Probes(Protocol):
    """Short looks, each with a limit of its own. All raise ``Unavailable`` with what was met."""

    async def http(self, url: str) -> None:
        """Whether something answers there, and not with an error of its own (5xx)."""
        ...

    async def socket(self, path: Path) -> None:
        """Whether somebody listens at this socket of the file system."""
        ...

    async def folder(self, path: Path) -> None:
        """Whether the folder is there; a file system that hangs does not hang the look."""
        ...

    async def space(self, path: Path) -> tuple[int, int]:
        """Bytes that are free for this process, and in all, on the folder's file system."""
        ...
