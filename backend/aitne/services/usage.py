"""Who has used how much, by project, user and month, from the scheduler's accounting."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from aitne.core.errors import InvalidInput
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.limits import Usage
from aitne.core.models.user import Actor
from aitne.core.policy import Action, decide, require
from aitne.core.ports.accounting import Accounting
from aitne.core.ports.store import Store

_MONTH = re.compile(r"(2[0-9]{3})-(0[1-9]|1[0-2])")
_NOW_KEPT = timedelta(seconds=30)
_PAST_KEPT = timedelta(hours=1)
_MOST_KEPT = 24


class UsageRow(Frozen):
    """What one user's jobs of one project have used in the month."""

    project: str
    user: str
    """The Unix account that the jobs ran as."""
    jobs: int
    cpu_hours: float
    gpu_hours: float
    """Each GPU counts: two for an hour are two."""
    gpu_hours_by_type: dict[str, float]


class UsageReport(Frozen):
    """A month from its first moment to its last, both in UTC; of the present one, until ``as_of``."""

    month: str
    starts_at: UtcTime
    ends_at: UtcTime
    as_of: UtcTime
    rows: tuple[UsageRow, ...]


class UsageService:
    """Asks accounting for a whole month at once and keeps that a while: nothing asks per user."""

    def __init__(self, store: Store, accounting: Accounting, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._accounting = accounting
        self._clock = clock
        self._kept: dict[str, tuple[datetime, Sequence[Usage]]] = {}
        self._turn = asyncio.Lock()

    async def report(self, actor: Actor, project: str | None, month: str | None) -> UsageReport:
        """One project's month, or that of all projects that the actor may see.

        Raises:
            NotFound: no such project, or none of the actor's.
            InvalidInput: that is no month.
            Unavailable, NotSupported: as accounting says.
        """
        if project is not None:
            require(Action.PROJECT_READ, actor, "project", project, project=project)
            await self._store.get_project(project)
        chosen = month or f"{self._clock().astimezone(UTC):%Y-%m}"
        start, end = _bounds(chosen)
        as_of, found = await self._month(chosen, start, end)
        return UsageReport(
            month=chosen,
            starts_at=start,
            ends_at=end,
            as_of=min(as_of, end),
            rows=tuple(
                _row(each)
                for each in found
                if (project is None or each.account == project)
                and decide(Action.PROJECT_READ, actor, project=each.account).allowed
            ),
        )

    async def _month(
        self, month: str, start: datetime, end: datetime
    ) -> tuple[datetime, Sequence[Usage]]:
        async with self._turn:
            now = self._clock()
            if start > now:
                return now, ()
            kept = self._kept.get(month)
            # What has ended in a month may reach the database somewhat later.
            settled = kept is not None and kept[0] > end + timedelta(days=1)
            if kept is not None and now - kept[0] < (_PAST_KEPT if settled else _NOW_KEPT):
                return kept
            found = now, await self._accounting.usage(start, min(end, now))
            self._kept.pop(month, None)
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[month] = found
            return found


def _bounds(month: str) -> tuple[datetime, datetime]:
    match = _MONTH.fullmatch(month)
    if match is None:
        raise InvalidInput.field("month", "is no month", value=month, allowed="such as 2026-03")
    year, number = int(match[1]), int(match[2])
    following = (year + 1, 1) if number == 12 else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)


def _row(used: Usage) -> UsageRow:
    return UsageRow(
        project=used.account,
        user=used.user,
        jobs=used.jobs,
        cpu_hours=_hours(used.cpu_s),
        gpu_hours=_hours(used.gpu_s),
        gpu_hours_by_type={name: _hours(spent) for name, spent in used.gpu_s_by_type.items()},
    )


def _hours(seconds: int) -> float:
    return round(seconds / 3_600, 4)
