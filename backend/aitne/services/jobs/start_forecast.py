"""Forecast of the scheduler about a job, requested before the job is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import InvalidInput, SchedulerRejected, Unavailable
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import Scheduler
from aitne.services.jobs.job_renderer import Renderer

SCHEDULER = "scheduler"
"""Field name in the error if the scheduler refuses a job without naming a field."""


SOON = timedelta(minutes=1)
"""Maximum time until an expected start that counts as an immediate start."""


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Forecast of the scheduler for a job that is not stored yet."""

    starts_at: datetime | None = None
    """Expected start; None: the scheduler has no forecast."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user, as sentences."""

    def find_pending_reason(self, now: datetime) -> str | None:
        """Return a pending reason if the job is expected to start later than ``now``; None if it
        starts at once or its start is unknown.
        """
        if self.starts_at is None or self.starts_at <= now + SOON:
            return None
        return "Waits in the queue: the free resources are planned for other jobs."


class Forecaster:
    """Component that requests forecasts from the scheduler. All forecasts are empty if only one
    process at a time may use the scheduler.
    """

    def __init__(self, renderer: Renderer, scheduler: Scheduler | None) -> None:
        self._renderer = renderer
        self._scheduler = scheduler

    async def get_forecast(self, job: Job, after: Sequence[str]) -> StartForecast:
        """Return the scheduler's forecast for the job.

        If the scheduler does not answer, the forecast contains only a warning.

        Args:
            after: scheduler IDs of the jobs that must end before this one starts.

        Raises:
            InvalidInput: the scheduler would reject the job.
        """
        if self._scheduler is None:
            return StartForecast()
        try:
            forecast = await self._scheduler.forecast(
                self._renderer.submit_request(job, {"after": after}, "")
            )
        except SchedulerRejected as error:
            raise InvalidInput.field(error.field or SCHEDULER, error.message) from error
        except Unavailable as error:
            return StartForecast(warnings=(f"The scheduler could not give a forecast: {error}",))
        return StartForecast() if forecast is None else StartForecast(forecast.starts_at)
