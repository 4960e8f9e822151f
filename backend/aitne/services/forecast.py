"""What the scheduler itself would say to a job, asked before anything is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import InvalidInput, SchedulerRejected, Unavailable
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import Scheduler
from aitne.services.render import Renderer

SCHEDULER = "scheduler"
"""The field that is named when the scheduler says no and does not say to what."""


SOON = timedelta(minutes=1)
"""A start that the scheduler expects within this time is called now."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """When it would start, and what the user should know."""

    starts_at: datetime | None = None
    warnings: tuple[str, ...] = ()

    def later(self, now: datetime) -> str | None:
        """That it has to wait by the scheduler's own plan; None: it need not, or nobody can tell."""
        if self.starts_at is None or self.starts_at <= now + SOON:
            return None
        return "Waits its turn: others were given what is free."


class Forecaster:
    """Asks a scheduler that several processes may hold; others have nothing to tell."""

    def __init__(self, renderer: Renderer, scheduler: Scheduler | None) -> None:
        self._renderer = renderer
        self._scheduler = scheduler

    async def ask(self, job: Job, after: Sequence[str]) -> Outlook:
        """Raises ``InvalidInput`` where the scheduler would refuse the job."""
        if self._scheduler is None:
            return Outlook()
        try:
            found = await self._scheduler.forecast(self._renderer.submit_request(job, after, ""))
        except SchedulerRejected as error:
            raise InvalidInput.field(error.field or SCHEDULER, error.message) from error
        except Unavailable as error:
            return Outlook(
                warnings=(f"The scheduler could not be asked what it thinks of this: {error}",)
            )
        return Outlook() if found is None else Outlook(found.starts_at)
