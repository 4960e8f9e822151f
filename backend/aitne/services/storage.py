"""A user's areas: what is there, what of it is used up, and making what is missing."""

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
"""So long one look serves everybody who asks for the same areas."""
_KNOWN_S = 600.0
"""So long a folder that was seen is not looked at again before it may have to be made."""
_MOST_KEPT = 5_000
_Key = tuple[str | None, tuple[Area, ...]]
"""Accounts may share a folder, and see it differently."""


class StorageView(Frozen):
    """The areas of one user."""

    account: str | None
    """The Unix account that they belong to; None: the user has none, and `problems` says why."""
    areas: tuple[AreaFacts, ...]
    """Home first."""
    problems: tuple[str, ...]
    """What the user should know, as sentences: what is missing, full, or cannot be asked."""
    as_of: UtcTime


class StorageService:
    """Asks ``places`` as the actor's own account, never for anybody else's areas."""

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
        """The actor's account and areas, by the settings alone: nothing is looked at.

        With ``project`` those of this one project, else of all that the actor is a member of.

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
        """What is at the actor's areas, made where the platform makes them: nobody is warned on the first day
        of folders that the first job would make. That a file system does not answer, or that the actor has
        no account whose areas they could be, is said, not raised.

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
        """Make the folders that are missing and that the platform makes; what went wrong.

        Costs nothing when all of them were there lately.

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
        """Those that the platform makes and that are not there. Raises ``Unavailable``."""
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
    """Whether its problem is a sentence by itself; of a name or a home it needs the field before it."""
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
