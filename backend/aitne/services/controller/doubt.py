"""Whether the scheduler's word on what runs still holds, after a sign that it may have fallen back.

It then counts jobs as running that had ended before it could note so, until it asks their nodes, which
takes Slurm minutes. Their agents have written down how they ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from aitne.core.errors import NotAllowed, Unavailable
from aitne.core.models.job import Job
from aitne.core.together import together
from aitne.services.controller.missing import Missing, Verdict

log = logging.getLogger(__name__)

LOOK_AFTER_S = 20.0
"""By then it has settled, and who could not tell it of an end meanwhile has done so."""
TOLD_AFTER_S = 10.0
"""An end that is younger may still be on its way to the scheduler."""
LOOKS_AT_ONCE = 8


class Doubt:
    """Looks once, some time after the last sign, at the files of everything that is said to run."""

    def __init__(self, missing: Missing, clock: Callable[[], datetime]) -> None:
        self._missing = missing
        self._clock = clock
        # Nobody knows what went on before this process was there.
        self._look_at: datetime | None = clock() + timedelta(seconds=LOOK_AFTER_S)

    def silent(self) -> None:
        """It does not answer, so it may be another one when it does."""
        self._look_at = self._clock() + timedelta(seconds=LOOK_AFTER_S)

    def sign(self) -> None:
        """It has forgotten something, or holds what is over."""
        if self._look_at is None:
            self.silent()

    async def over(self, running: Callable[[], Iterable[Job]]) -> list[tuple[Job, Verdict]]:
        """Those of the jobs that have ended, when it is time to look; mostly nothing is asked."""
        now = self._clock()
        if self._look_at is None or now < self._look_at:
            return []
        self._look_at = None
        slots = asyncio.Semaphore(LOOKS_AT_ONCE)
        found: list[tuple[Job, Verdict]] = []

        async def look(job: Job) -> None:
            async with slots:
                try:
                    verdict = await self._missing.told(job, now - timedelta(seconds=TOLD_AFTER_S))
                except (Unavailable, NotAllowed) as error:
                    log.warning("Job %s is believed to run: %s", job.id, error.message)
                    return
            if verdict is not None:
                log.info("Job %s has ended, though the scheduler says that it runs.", job.id)
                found.append((job, verdict))

        await together(map(look, running()))
        return found
