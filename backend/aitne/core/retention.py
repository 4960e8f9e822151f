"""Retention of ended jobs: how long the platform keeps them, by settings of the site and of
projects.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from aitne.core.errors import FieldProblem
from aitne.core.jobs.states import TERMINAL, JobState
from aitne.core.models.base import FOREVER, KeepTime, Strict
from aitne.core.models.project import Retention
from aitne.core.units import format_duration

FAILURES = TERMINAL - {JobState.COMPLETED, JobState.CANCELLED}
"""Final states of jobs to which ``keep_failed_jobs`` applies."""
LEAST_IN_PROJECT_S = 86_400
"""Minimum retention in seconds that a project can set."""


class RetentionSettings(Strict):
    """Retention of ended jobs with their logs, metrics and job folders; usage is always kept."""

    keep_jobs: KeepTime = Field(
        FOREVER, description="How long ended jobs are kept, such as `90d`; `forever` keeps all."
    )
    keep_failed_jobs: KeepTime | None = Field(
        None,
        description="The same for jobs that failed, timed out or were lost; not shorter than "
        "keep_jobs. Unset: as keep_jobs.",
    )
    max_keep_jobs: KeepTime | None = Field(
        None,
        description="Longest time that a project's managers can set; unset: the site's own times, "
        "so that a project can only shorten them.",
    )

    @model_validator(mode="after")
    def _failed_are_kept_longer(self) -> Self:
        for name in ("keep_failed_jobs", "max_keep_jobs"):
            value = getattr(self, name)
            if value is not None and _is_shorter(value, self.keep_jobs):
                raise ValueError(f"{name} must not be shorter than keep_jobs")
        return self


class KeepTimes(NamedTuple):
    """Retention of ended jobs in seconds; None: unlimited."""

    ended_s: int | None
    """Retention of jobs that completed or were cancelled."""
    failed_s: int | None
    """Retention of jobs that failed."""

    def is_expired(self, state: JobState, ended_at: datetime | None, now: datetime) -> bool:
        """Return whether the retention of a job in this state, which ended at ``ended_at``, is over
        at ``now``.
        """
        keep_s = self.failed_s if state in FAILURES else self.ended_s
        if state not in TERMINAL or ended_at is None or keep_s is None:
            return False
        return ended_at <= now - timedelta(seconds=keep_s)


def keep_times(settings: RetentionSettings, project: Retention | None = None) -> KeepTimes:
    """Return how long the ended jobs of a project are kept: as long as the project's retention
    says, but at most as long as the platform's settings permit (``max_keep_jobs``).

    Failed jobs are kept at least as long as others.
    """
    site_failed = settings.keep_failed_jobs or settings.keep_jobs
    own = project or Retention()
    ended = _select_shorter(
        own.keep_jobs or settings.keep_jobs, settings.max_keep_jobs or settings.keep_jobs
    )
    failed = _select_shorter(
        own.keep_failed_jobs or site_failed, settings.max_keep_jobs or site_failed
    )
    return KeepTimes(
        _to_seconds(ended), _to_seconds(ended if _is_shorter(failed, ended) else failed)
    )


def list_retention_problems(
    requested: Retention, settings: RetentionSettings
) -> Iterator[FieldProblem]:
    """Yield a problem for each time in a project's requested retention ``requested`` that is too short,
    or longer than the platform's settings permit.
    """
    site = {
        "keep_jobs": settings.keep_jobs,
        "keep_failed_jobs": settings.keep_failed_jobs or settings.keep_jobs,
    }
    for name, default in site.items():
        value, most = getattr(requested, name), settings.max_keep_jobs or default
        if value is None:
            continue
        if value != FOREVER and value < LEAST_IN_PROJECT_S:
            yield FieldProblem(name, "is too short", format_keep_time(value), "at least 1d")
        elif _is_shorter(most, value):
            yield FieldProblem(
                name,
                "is longer than this site keeps jobs",
                format_keep_time(value),
                f"at most {format_keep_time(most)}",
            )


def format_keep_time(keep: KeepTime) -> str:
    """Return a retention in the form used in settings, such as ``90d``."""
    return keep if isinstance(keep, str) else format_duration(keep)


def _to_seconds(keep: KeepTime) -> int | None:
    return None if isinstance(keep, str) else keep


def _is_shorter(first: KeepTime, second: KeepTime) -> bool:
    first_s, second_s = _to_seconds(first), _to_seconds(second)
    return first_s is not None and (second_s is None or first_s < second_s)


def _select_shorter(first: KeepTime, second: KeepTime) -> KeepTime:
    return first if _is_shorter(first, second) else second
