"""Usage by month: from the database if the month's usage can no longer change, otherwise from
accounting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from aitne.core.errors import NotSupported
from aitne.core.ports.accounting import Accounting
from aitne.services.projects.project_balance import get_month_bounds
from aitne.services.projects.usage_without_accounting import JobUsage
from aitne.store import Store
from aitne.store.usage import StoredMonth

log = logging.getLogger(__name__)

SCHEDULER, PLATFORM = "scheduler", "platform"
FRESH = timedelta(seconds=30)
SETTLED_AFTER = timedelta(days=1)
"""Time after the end of a month after which its usage counts as final, because accounting records
may arrive late.
"""


class UsageMonths:
    """Usage of whole months for all users, stored in the database and updated from accounting or,
    without it, from the platform's jobs.
    """

    def __init__(
        self, store: Store, accounting: Accounting | None, clock: Callable[[], datetime]
    ) -> None:
        """Store the dependencies; ``accounting`` is None if only the platform has records of
        usage.
        """
        self._store = store
        self._accounting = accounting
        self._own = JobUsage(store, clock)
        self._clock = clock
        self._turn = asyncio.Lock()

    async def month(self, month: str, *, fresh: timedelta = FRESH) -> StoredMonth:
        """Return the usage in ``month`` (``YYYY-MM``). Values that can still change are at most
        ``fresh`` old.

        Raises:
            Unavailable: accounting does not answer.
        """
        start, end = get_month_bounds(month)
        async with self._turn:
            now = self._clock()
            stored_month = (await self._store.list_usage_months([month])).get(month)
            if stored_month is not None and (
                is_month_settled(stored_month, month) or now - stored_month.taken_at < fresh
            ):
                return stored_month
            if start > now:
                return StoredMonth(now, PLATFORM, ())
            usage = await self._query_usage(start, min(end, now), now)
            await self._store.save_month_usage(month, usage)
            return usage

    async def _query_usage(self, start: datetime, end: datetime, now: datetime) -> StoredMonth:
        if self._accounting is not None:
            try:
                return StoredMonth(now, SCHEDULER, await self._accounting.read_usage(start, end))
            except NotSupported:
                log.debug("The scheduler keeps no accounts; the platform's own record is used.")
        return StoredMonth(now, PLATFORM, await self._own.usage(start, end))


def is_month_settled(stored_month: StoredMonth, month: str) -> bool:
    """Return whether the usage of the month can no longer change."""
    return stored_month.taken_at > get_month_bounds(month)[1] + SETTLED_AFTER
