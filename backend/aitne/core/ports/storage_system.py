"""Storage systems: one adapter for each kind, called under the account that owns the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aitne.core.models.storage_area import Area, AreaFacts, PathFacts


class Storage(Protocol):
    """Port to one kind of storage system, which reports sizes and quotas. Each module in
    ``adapters/storage`` has one implementation. Calls block; they run in the per-user helper.
    """

    name: str

    def read_area(self, area: Area, *, user: str) -> AreaFacts:
        """Return size, quota and other current properties of a storage area; ``user`` is the name
        of its Unix account.

        Never raises for errors of a file system: the field ``problem`` describes them.
        """
        ...


class UserFolders(Protocol):
    """Port that inspects and creates users' folders under the Unix account that owns them.

    Every method may raise ``Unavailable`` (the broker or the file system does not answer) and
    ``NotAllowed`` (the platform may not act as the account).
    """

    async def read_areas(self, account: str | None, areas: Sequence[Area]) -> Sequence[AreaFacts]:
        """Return the properties of each area as seen by the Unix account ``account``; None: the
        platform's own account.
        """
        ...

    async def read_paths(self, account: str | None, paths: Sequence[str]) -> Sequence[PathFacts]:
        """Return the properties of each absolute path as seen by the Unix account ``account``;
        None: the platform's own account.
        """
        ...

    async def create_folders(self, account: str | None, areas: Sequence[Area]) -> Sequence[str]:
        """Create the missing folders of the areas with the correct owner and mode.

        Returns one sentence for each folder that could not be created; folders outside the
        configured patterns are refused.
        """
        ...
