"""Periodic check of the audit log's chain of hashes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from aitne.core.errors import StoreUnavailable
from aitne.services.audit import AuditService

log = logging.getLogger(__name__)

FIRST_AFTER_S = 5.0
CHECK_EVERY_S = 86_400.0
RETRY_S = 60.0
PAUSE_S = 0.02
"""Seconds between two batches of entries, so that the check of a long log delays no requests."""


@dataclass(frozen=True, slots=True)
class AuditCheckResult:
    """Result of one check of the audit log."""

    intact: bool
    """Whether the chain of hashes is complete and unchanged."""
    at: datetime
    """Time of the check."""


class AuditChecks:
    """Task that checks the audit log after the start and once a day."""

    def __init__(self, audit: AuditService, clock: Callable[[], datetime]) -> None:
        self._audit = audit
        self._clock = clock
        self.last: AuditCheckResult | None = None
        """Result of the last check; None before the first one."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the periodic checks."""
        self._task = asyncio.create_task(self._run(), name="audit-checks")

    async def stop(self) -> None:
        """Stop the periodic checks."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def check(self) -> AuditCheckResult:
        """Check the whole log now and keep the result. Raises ``StoreUnavailable``."""
        found = await self._audit.check_chain(pause_s=PAUSE_S)
        if not found.intact:
            log.error(
                "The audit log is not intact at entry %s: %s", found.broken_entry, found.problem
            )
        self.last = AuditCheckResult(found.intact, self._clock())
        return self.last

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_AFTER_S)
        while True:
            try:
                await self.check()
                await asyncio.sleep(CHECK_EVERY_S)
            except StoreUnavailable as error:
                log.warning("The audit log is checked later: %s", error.message)
                await asyncio.sleep(RETRY_S)
