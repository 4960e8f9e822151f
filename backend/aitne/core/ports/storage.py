"""Storage systems: one adapter each, called as the account that owns the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.storage import Area, AreaFacts, PathFacts


class Storage(Protocol):
    """Source of facts about storage. Each file in ``adapters/storage`` has one. Blocking: it runs
    in the account's helper."""

    name: str

    def look(self, area: Area, *, user: str) -> AreaFacts:
        """Return the present facts about an area. Never raises for errors of a file system:
        ``problem`` states them."""
        ...


class UserFolders(Protocol):
    """Inspection and creation of folders as the account that they belong to.

    Every method may raise ``Unavailable`` (the broker or the file system does not answer) and
    ``NotAllowed`` (the account may not be acted for).
    """

    async def areas(self, account: str | None, areas: Sequence[Area]) -> Sequence[AreaFacts]:
        """Return facts about each area as ``account`` sees it, or the platform's own account if
        None."""
        ...

    async def paths(self, account: str | None, paths: Sequence[str]) -> Sequence[PathFacts]:
        """Return facts about each absolute path as ``account`` sees it, or the platform's own
        account if None."""
        ...

    async def make(self, account: str | None, areas: Sequence[Area]) -> Sequence[str]:
        """Create the folders that are missing, with the right owner and mode; return a sentence for
        each that could not be created. Those outside the configured patterns are refused."""
        ...
