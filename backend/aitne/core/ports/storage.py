"""Storage systems: one adapter each, called as the account that owns the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.storage import Area, AreaFacts, PathFacts


class Storage(Protocol):
    """Port to a kind of storage system, which reports sizes and quotas. Each module in
    ``adapters/storage`` has one implementation. Calls block; they run in the per-user helper.
    """

    name: str

    def look(self, area: Area, *, user: str) -> AreaFacts:
        """Return size, quota and other present facts of a storage area. Never raises for errors of
        a file system: the field ``problem`` describes them.
        """
        ...


class UserFolders(Protocol):
    """Port that inspects and creates users' folders under the Unix account that owns them.

    Every method may raise ``Unavailable`` (the broker or the file system does not answer) and
    ``NotAllowed`` (the platform may not act as the account).
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
        """Create the missing folders of the areas with the right owner and mode. Return one
        sentence for each that could not be created; folders outside the configured patterns are
        refused.
        """
        ...
