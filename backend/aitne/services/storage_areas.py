"""Storage areas of a user: their existence and use, and the creation of missing ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import InvalidInput, Unavailable
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.storage_area import Area, AreaFacts, Quota
from aitne.core.models.user import Actor
from aitne.core.ports.storage_system import UserFolders
from aitne.core.ports.unix_account_mapping import Accounts, UnixAccount
from aitne.core.storage.areas import is_created_by_platform, list_areas, make_area_owner
from aitne.core.storage.storage_and_container_settings import StorageSettings
from aitne.core.users.permissions import PolicyAction, require_permission

FRESH_S = 5.0
"""Seconds for which the result of one query is reused for all requests about the same areas."""
_KNOWN_S = 600.0
"""Seconds for which a folder that existed in the last check is not checked again."""
_MOST_KEPT = 5_000
_Key = tuple[str | None, tuple[Area, ...]]
"""Unix account and areas. The account is part of the key because two accounts may see the same
folder differently.
"""


class StorageView(Frozen):
    """The storage areas of one user with their quotas, and problems in reading them."""

    account: str | None
    """Unix account whose areas these are; None if the user has none, and `problems` contains the
    reason.
    """
    areas: tuple[AreaFacts, ...]
    """Areas, the home folder first."""
    problems: tuple[str, ...]
    """Sentences for the user about areas that are missing, full or cannot be queried."""
    as_of: UtcTime


class StorageService:
    """Service that reports and creates the storage areas of the actor, under the actor's own Unix
    account.
    """

    def __init__(
        self,
        settings: StorageSettings,
        accounts: Accounts,
        places: UserFolders,
        clock: Callable[[], datetime],
        *,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._settings = settings
        self._accounts = accounts
        self._places = places
        self._clock = clock
        self._fresh_s = fresh_s
        self._views: dict[_Key, tuple[float, asyncio.Task[StorageView]]] = {}
        self._known: dict[str, float] = {}

    async def areas(
        self, actor: Actor, project: str | None = None
    ) -> tuple[UnixAccount, Sequence[Area]]:
        """Return the actor's Unix account and storage areas according to the settings, without
        reading the file system.

        The areas are those of ``project`` or, if it is None, of all projects of the actor.

        Raises:
            NotFound: the actor is not a member of the project.
            InvalidInput: the actor has no account, or its name cannot be the name of a folder.
        """
        require_permission(
            PolicyAction.STORAGE_READ, actor, "storage", actor.name, owner=actor.name
        )
        if project is not None:
            require_permission(
                PolicyAction.PROJECT_READ, actor, "project", project, project=project
            )
        account = await asyncio.to_thread(self._accounts.get_account, actor.name)
        projects = sorted(actor.projects) if project is None else [project]
        return account, list_areas(self._settings, make_area_owner(account), projects)

    async def create_and_inspect_areas(
        self, actor: Actor, project: str | None = None
    ) -> StorageView:
        """Create the actor's storage folders that are missing, and return the state of all areas.

        If the platform is not configured to create a folder, a file system does not answer, or the
        actor has no Unix account, the result describes the problem.

        Raises:
            NotFound, NotAllowed: as ``areas``.
        """
        try:
            account, areas = await self.areas(actor, project)
        except InvalidInput as error:
            message = error.problems[0].message if _no_account(error) else error.message
            return StorageView(account=None, areas=(), problems=(message,), as_of=self._clock())
        key, now = (account.name, tuple(areas)), time.monotonic()
        cached_view = self._views.get(key)
        if cached_view is None or cached_view[0] < now:
            if len(self._views) >= _MOST_KEPT:
                self._views = {
                    view_key: view for view_key, view in self._views.items() if view[0] >= now
                }
            task = asyncio.create_task(self._inspect_areas(account, areas), name="storage-look")
            cached_view = self._views[key] = (now + self._fresh_s, task)
        # A client that disconnects must not cancel the query for the others that share it.
        return await asyncio.shield(cached_view[1])

    async def create_missing_areas(
        self, actor: Actor, project: str | None = None
    ) -> tuple[str, ...]:
        """Create missing storage folders of the actor. Returns a sentence for each problem.

        No file system is accessed if all folders existed in a recent check.

        Raises:
            NotFound, NotAllowed, InvalidInput: as ``areas``.
        """
        account, areas = await self.areas(actor, project)
        try:
            missing = await self._find_missing_areas(account, areas)
            if not missing:
                return ()
            self._views.clear()
            return tuple(await self._places.create_folders(account.name, missing))
        except Unavailable as error:
            return (error.message,)

    async def _find_missing_areas(self, account: UnixAccount, areas: Sequence[Area]) -> list[Area]:
        """Return those areas that are missing and that the platform is configured to create.

        Raises ``Unavailable`` if the file system or the broker does not answer.
        """
        now = time.monotonic()
        doubtful = [
            area
            for area in areas
            if self._known.get(area.path, 0.0) < now
            and is_created_by_platform(self._settings, area)
        ]
        if not doubtful:
            return []
        path_facts = await self._places.read_paths(account.name, [area.path for area in doubtful])
        missing = []
        for area, facts in zip(doubtful, path_facts, strict=True):
            if facts.kind == "folder":
                self._remember_existing(area.path, now)
            elif facts.is_missing:
                missing.append(area)
        return missing

    def _remember_existing(self, path: str, now: float) -> None:
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[path] = now + _KNOWN_S

    async def _inspect_areas(self, account: UnixAccount, areas: Sequence[Area]) -> StorageView:
        try:
            area_facts = tuple(await self._places.read_areas(account.name, areas))
            absent = [facts.area for facts in area_facts if not facts.available]
            if missing := await self._find_missing_areas(account, absent):
                await self._places.create_folders(account.name, missing)
                area_facts = tuple(await self._places.read_areas(account.name, areas))
            problems = [message for facts in area_facts for message in _list_area_problems(facts)]
        except Unavailable as error:
            area_facts = tuple(
                AreaFacts(area=area, available=False, problem=error.message) for area in areas
            )
            problems = [error.message]
        return StorageView(
            account=account.user or account.name,
            areas=area_facts,
            problems=tuple(dict.fromkeys(problems)),
            as_of=self._clock(),
        )


def _no_account(error: InvalidInput) -> bool:
    """Return whether the only problem of the error is that the actor has no account. The message of
    this problem is a complete sentence; messages of other problems are only complete with the name
    of their field.
    """
    return [problem.field for problem in error.problems] == ["account"]


def _list_area_problems(facts: AreaFacts) -> list[str]:
    area = facts.area
    messages = [] if facts.problem is None else [facts.problem]
    if facts.available and not facts.writable:
        messages.append(f"You may not write into {area.path}.")
    whose = area.name if area.project is None else f"{area.name} of project {area.project}"
    messages += _list_quota_problems(f"Your quota of {whose}", facts.user_quota)
    messages += _list_quota_problems(f"The project's quota of {whose}", facts.project_quota)
    if facts.available and facts.free_bytes == 0 and facts.total_bytes:
        messages.append(f"The file system of {area.path} is full.")
    bad = [target for target in facts.targets if not target.state.lower().startswith("online/good")]
    if bad:
        named = ", ".join(f"{target.name} ({target.state})" for target in bad[:5])
        messages.append(f"{area.path} lies on storage targets with problems: {named}.")
    return messages


def _list_quota_problems(subject: str, quota: Quota | None) -> list[str]:
    if quota is None:
        return []
    messages = []
    used, limit = quota.used_bytes, quota.limit_bytes
    if used is not None and limit is not None and used >= limit:
        shown = f"{describe_bytes(used)} of {describe_bytes(limit)}"
        messages.append(f"{subject} is used up: {shown}. Delete something, or ask for more.")
    files, max_files = quota.used_files, quota.limit_files
    if files is not None and max_files is not None and files >= max_files:
        messages.append(
            f"{subject} is used up: {files} of {max_files} files. Delete some, or ask for more."
        )
    return messages
