"""Access to storage areas and paths under a user's account: without a broker the process's own
account, with a broker any account.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import partial

from aitne.adapters.area_folders import create_area_folder
from aitne.adapters.broker_scheduler import BrokerClient
from aitne.adapters.path_facts import TimeoutExecutor, find_mount_point, read_areas, read_paths
from aitne.adapters.unix_account_mapping import UnixUser
from aitne.core.broker.storage_area_verbs import (
    MAX_AREAS,
    MAX_PATHS,
    AreasResult,
    MakeAreasResult,
    PathsResult,
)
from aitne.core.errors import InvalidInput, NotAllowed
from aitne.core.models.storage_area import Area, AreaFacts, PathFacts
from aitne.core.ports.storage_system import Storage
from aitne.core.settings import Settings
from aitne.core.storage.areas import AreaOwner, list_areas
from aitne.core.storage.storage_and_container_settings import StorageSettings
from aitne.local_system.own_account import own_account_name


class OwnUserFolders:
    """Implementation of ``core.ports.storage_system.UserFolders`` under the Unix account of the platform's
    own processes.
    """

    def __init__(
        self,
        settings: StorageSettings,
        storages: Mapping[str, Storage],
        patience: TimeoutExecutor | None = None,
    ) -> None:
        self._settings = settings
        self._storages = storages
        self._patience = patience or TimeoutExecutor()

    async def read_areas(self, account: str | None, areas: Sequence[Area]) -> Sequence[AreaFacts]:
        """Return size, quota and other facts about each storage area. ``account`` must be None or
        the platform's own account.
        """
        _check_own_account(account)
        user = own_account_name()
        return await asyncio.to_thread(read_areas, self._patience, self._storages, areas, user)

    async def read_paths(self, account: str | None, paths: Sequence[str]) -> Sequence[PathFacts]:
        """Return type, size and other facts about the file or folder at each absolute path.
        ``account`` must be None or the platform's own account.
        """
        _check_own_account(account)
        return await asyncio.to_thread(read_paths, self._patience, paths)

    async def create_folders(self, account: str | None, areas: Sequence[Area]) -> Sequence[str]:
        """Create the areas' folders that are missing; return a sentence for each that could not be
        created.
        """
        _check_own_account(account)
        user = _own_user()
        return await asyncio.to_thread(
            create_area_folders, self._patience, self._settings, user, tuple(areas)
        )


class BrokerUserFolders:
    """Implementation of ``core.ports.storage_system.UserFolders`` that sends every call to the broker."""

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)

    async def read_areas(self, account: str | None, areas: Sequence[Area]) -> Sequence[AreaFacts]:
        """Return size, quota and other facts about each storage area, read under ``account``."""
        facts: list[AreaFacts] = []
        for start in range(0, len(areas), MAX_AREAS):
            args = _make_broker_arguments(account, areas[start : start + MAX_AREAS])
            facts += (await self._client.call("areas", args, AreasResult)).areas
        return facts

    async def read_paths(self, account: str | None, paths: Sequence[str]) -> Sequence[PathFacts]:
        """Return type, size and other facts about the file or folder at each absolute path, read
        under ``account``.
        """
        facts: list[PathFacts] = []
        for start in range(0, len(paths), MAX_PATHS):
            part = list(paths[start : start + MAX_PATHS])
            args = {"account": _require_account(account), "paths": part}
            facts += (await self._client.call("paths", args, PathsResult)).paths
        return facts

    async def create_folders(self, account: str | None, areas: Sequence[Area]) -> Sequence[str]:
        """Create the areas' folders that are missing; return a sentence for each that could not be
        created.
        """
        problems: list[str] = []
        for start in range(0, len(areas), MAX_AREAS):
            args = _make_broker_arguments(account, areas[start : start + MAX_AREAS])
            problems += (await self._client.call("make_areas", args, MakeAreasResult)).problems
        return problems

    async def close(self) -> None:
        """Close the broker connection."""
        await self._client.close()


def create_area_folders(
    executor: TimeoutExecutor, settings: StorageSettings, user: UnixUser, areas: Sequence[Area]
) -> list[str]:
    """Create the missing folders of storage areas. Return a sentence for each folder that was not
    created, or that exists with a wrong owner or mode.

    Args:
        executor: executor, which limits the time that this call blocks.
        settings: storage settings; areas that they do not define for this account are not created.
        user: account that will own the folders.
        areas: storage areas.
    """
    owner = AreaOwner(user=user.name, uid=user.uid, home=user.home)
    problems = [_find_area_mismatch(settings, owner, area) for area in areas]
    allowed = [area for area, outside in zip(areas, problems, strict=True) if outside is None]
    tasks = [
        (find_mount_point(area.path), partial(_create_area_folder, area, user)) for area in allowed
    ]
    for area, made in zip(allowed, executor.gather(tasks), strict=True):
        hangs = f"{area.path} was not created in time: its file system does not answer."
        problems.append(hangs if made is None else made[0])
    return [problem for problem in problems if problem is not None]


def _create_area_folder(area: Area, user: UnixUser) -> tuple[str | None]:
    return (create_area_folder(area, user),)


def _find_area_mismatch(settings: StorageSettings, owner: AreaOwner, area: Area) -> str | None:
    """Check that ``settings`` define exactly this storage area for the owner. Return None if they
    do, otherwise a sentence with the reason why its folder is not created.

    ``settings`` are the storage settings of the process that creates folders.
    """
    try:
        user_areas = list_areas(settings, owner, [] if area.project is None else [area.project])
    except InvalidInput as error:
        return f"{area.path} is not created: {error.message}."
    if any(user_area.model_dump() == area.model_dump() for user_area in user_areas):
        return None
    return (
        f"{area.path} is not created: it is not where [storage] puts {owner.user}'s {area.name}. "
        "Where there is a broker, [storage] must be the same in its settings and in the platform's."
    )


def _own_user() -> UnixUser:
    gid = os.getegid()
    groups = (gid, *os.getgroups())
    return UnixUser(own_account_name(), os.geteuid(), gid, groups, os.path.expanduser("~"))


def _check_own_account(account: str | None) -> None:
    if account is not None:
        raise NotAllowed(
            f"This platform cannot act as {account}: it has no broker. Set broker.socket."
        )


def _require_account(account: str | None) -> str:
    if account is None:
        raise NotAllowed("The broker acts only for an account, and the request names none.")
    return account


def _make_broker_arguments(account: str | None, areas: Sequence[Area]) -> dict[str, object]:
    return {
        "account": _require_account(account),
        "areas": [area.model_dump(mode="json") for area in areas],
    }
