"""Storage areas of a user: existence, use, and creation of missing ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from aitne.core.areas import areas_of, made, owner_of
from aitne.core.errors import InvalidInput, Unavailable
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.storage import Area, AreaFacts, Quota
from aitne.core.models.user import Actor
from aitne.core.policy import Action, require
from aitne.core.ports.accounts import Account, Accounts
from aitne.core.ports.storage import Places
from aitne.core.storage_settings import StorageSettings
from aitne.core.units import format_memory

FRESH_S = 5.0
"""Seconds for which one query serves all requests for the same areas."""
_KNOWN_S = 600.0
"""Seconds for which a folder that was seen is not queried again."""
_MOST_KEPT = 5_000
_Key = tuple[str | None, tuple[Area, ...]]
"""Account and areas: accounts may share a folder and see it differently."""


class StorageView(Frozen):
    """Storage areas of one user."""

    account: str | None
    """Unix account of the areas; None: the user has none, and `problems` tells why."""
    areas: tuple[AreaFacts, ...]
    """Areas, the home folder first."""
    problems: tuple[str, ...]
    """Sentences for the user: areas that are missing, full or cannot be queried."""
    as_of: UtcTime


class StorageService:
    """Query of ``places`` as the actor's own account, and never for the areas of other users."""

    def __init__(
        self,
        settings: StorageSettings,
        accounts: Accounts,
        places: Places,
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
    ) -> tuple[Account, Sequence[Area]]:
        """Return the actor's account and areas, from the settings alone.

        With ``project`` those of this project, otherwise of all projects of the actor.

        Raises:
            NotFound: the project is none of the actor's.
            InvalidInput: the actor has no account, or one that no folder can be named after.
        """
        require(Action.STORAGE_READ, actor, "storage", actor.name, owner=actor.name)
        if project is not None:
            require(Action.PROJECT_READ, actor, "project", project, project=project)
        account = await asyncio.to_thread(self._accounts.of, actor.name)
        projects = sorted(actor.projects) if project is None else [project]
        return account, areas_of(self._settings, owner_of(account), projects)

    async def mine(self, actor: Actor, project: str | None = None) -> StorageView:
        """Return the state of the actor's storage areas, after creating the missing ones.

        Only folders that the platform creates are created, so a new user is not warned of folders
        that the first job would create. A file system that does not answer, or an actor without an
        account, is reported in the result, not raised.

        Raises:
            NotFound, NotAllowed: as ``areas``.
        """
        try:
            account, areas = await self.areas(actor, project)
        except InvalidInput as error:
            said = error.problems[0].message if _no_account(error) else error.message
            return StorageView(account=None, areas=(), problems=(said,), as_of=self._clock())
        key, now = (account.name, tuple(areas)), time.monotonic()
        kept = self._views.get(key)
        if kept is None or kept[0] < now:
            if len(self._views) >= _MOST_KEPT:
                self._views = {
                    each: found for each, found in self._views.items() if found[0] >= now
                }
            task = asyncio.create_task(self._look(account, areas), name="storage-look")
            kept = self._views[key] = (now + self._fresh_s, task)
        # Whoever hangs up must not take the look away from those who share it.
        return await asyncio.shield(kept[1])

    async def ensure(self, actor: Actor, project: str | None = None) -> tuple[str, ...]:
        """Create the missing folders that the platform creates; return the problems.

        Costs nothing if all of them existed recently.

        Raises:
            NotFound, NotAllowed, InvalidInput: as ``areas``.
        """
        account, areas = await self.areas(actor, project)
        try:
            missing = await self._missing(account, areas)
            if not missing:
                return ()
            self._views.clear()
            return tuple(await self._places.make(account.name, missing))
        except Unavailable as error:
            return (error.message,)

    async def _missing(self, account: Account, areas: Sequence[Area]) -> list[Area]:
        """Return the areas that the platform creates and that are missing.

        Raises ``Unavailable``.
        """
        now = time.monotonic()
        doubtful = [
            area
            for area in areas
            if self._known.get(area.path, 0.0) < now and made(self._settings, area)
        ]
        if not doubtful:
            return []
        seen = await self._places.paths(account.name, [area.path for area in doubtful])
        missing = []
        for area, facts in zip(doubtful, seen, strict=True):
            if facts.kind == "folder":
                self._know(area.path, now)
            elif facts.nothing_there:
                missing.append(area)
        return missing

    def _know(self, path: str, now: float) -> None:
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[path] = now + _KNOWN_S

    async def _look(self, account: Account, areas: Sequence[Area]) -> StorageView:
        try:
            found = tuple(await self._places.areas(account.name, areas))
            absent = [facts.area for facts in found if not facts.there]
            if missing := await self._missing(account, absent):
                await self._places.make(account.name, missing)
                found = tuple(await self._places.areas(account.name, areas))
            problems = [said for facts in found for said in _problems(facts)]
        except Unavailable as error:
            found = tuple(
                AreaFacts(area=area, there=False, problem=error.message) for area in areas
            )
            problems = [error.message]
        return StorageView(
            account=account.user or account.name,
            areas=found,
            problems=tuple(dict.fromkeys(problems)),
            as_of=self._clock(),
        )


def _no_account(error: InvalidInput) -> bool:
    """Return whether the error's only problem is about the account, a complete sentence by itself.

    A problem of a name or a home folder needs its field before it.
    """
    return [problem.field for problem in error.problems] == ["account"]


def _problems(facts: AreaFacts) -> list[str]:
    area = facts.area
    found = [] if facts.problem is None else [facts.problem]
    if facts.there and not facts.writable:
        found.append(f"You may not write into {area.path}.")
    whose = area.name if area.project is None else f"{area.name} of project {area.project}"
    found += _full(f"Your quota of {whose}", facts.user_quota)
    found += _full(f"The project's quota of {whose}", facts.project_quota)
    if facts.there and facts.free_bytes == 0 and facts.total_bytes:
        found.append(f"The file system of {area.path} is full.")
    bad = [each for each in facts.targets if not each.state.lower().startswith("online/good")]
    if bad:
        named = ", ".join(f"{each.name} ({each.state})" for each in bad[:5])
        found.append(f"{area.path} lies on storage targets that are not well: {named}.")
    return found


def _full(what: str, quota: Quota | None) -> list[str]:
    if quota is None:
        return []
    found = []
    used, limit = quota.used_bytes, quota.limit_bytes
    if used is not None and limit is not None and used >= limit:
        shown = f"{format_memory(used)} of {format_memory(limit)}"
        found.append(f"{what} is used up: {shown}. Delete something, or ask for more.")
    files, most = quota.used_files, quota.limit_files
    if files is not None and most is not None and files >= most:
        found.append(f"{what} is used up: {files} of {most} files. Delete some, or ask for more.")
    return found
