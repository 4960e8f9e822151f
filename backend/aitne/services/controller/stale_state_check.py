"""Search for jobs that have ended although the scheduler counts them as running.

After a crash the scheduler may have lost the ends of jobs. It counts these jobs as running until it
has queried their nodes, which takes Slurm minutes. The agents have recorded how the jobs ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from aitne.core.concurrent_coroutines import run_concurrently
from aitne.core.errors import NotAllowed, Unavailable
from aitne.core.models.job import Job
from aitne.services.controller.missing_run_resolution import MissingRunResolver, RunVerdict

log = logging.getLogger(__name__)

LOOK_AFTER_S = 20.0
"""Seconds from the last sign of an inconsistency to the search.

By then the scheduler has processed the delayed reports of jobs that ended.
"""
TOLD_AFTER_S = 10.0
"""Minimum age of a recorded end in seconds: the scheduler may not have processed more recent ends
yet.
"""
LOOKS_AT_ONCE = 8


class StaleStateCheck:
    """Component that searches the agents' records in the job folders for jobs that have ended
    although the scheduler counts them as running.

    One search takes place ``LOOK_AFTER_S`` seconds after the start of the controller, and after
    each sign of an inconsistency.
    """

    def __init__(self, missing: MissingRunResolver, clock: Callable[[], datetime]) -> None:
        self._missing = missing
        self._clock = clock
        # What happened before this process started is unknown.
        self._look_at: datetime | None = clock() + timedelta(seconds=LOOK_AFTER_S)

    def postpone_search(self) -> None:
        """Schedule a search, or postpone a scheduled one, because the scheduler does not answer. It
        may have restarted and lost the ends of jobs.
        """
        self._look_at = self._clock() + timedelta(seconds=LOOK_AFTER_S)

    def schedule_search(self) -> None:
        """Schedule a search, unless one is scheduled already, because the scheduler has no record
        of a live job, or reports an ended job as live.
        """
        if self._look_at is None:
            self.postpone_search()

    async def find_ended(
        self, running: Callable[[], Iterable[Job]]
    ) -> list[tuple[Job, RunVerdict]]:
        """If a search is due, return those jobs of ``running`` that have ended, each with its final
        state. Otherwise return an empty list without reading any folder.
        """
        now = self._clock()
        if self._look_at is None or now < self._look_at:
            return []
        self._look_at = None
        slots = asyncio.Semaphore(LOOKS_AT_ONCE)
        verdicts: list[tuple[Job, RunVerdict]] = []

        async def look(job: Job) -> None:
            async with slots:
                try:
                    verdict = await self._missing.resolve_from_agent_outcome(
                        job, now - timedelta(seconds=TOLD_AFTER_S)
                    )
                except (Unavailable, NotAllowed) as error:
                    log.warning("Job %s is assumed to run: %s", job.id, error.message)
                    return
            if verdict is not None:
                log.info("Job %s has ended, though the scheduler says that it runs.", job.id)
                verdicts.append((job, verdict))

        await run_concurrently(map(look, running()))
        return verdicts
