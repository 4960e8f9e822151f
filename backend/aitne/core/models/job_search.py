"""Filters and sort keys for lists of jobs, used by the API, saved views and requests about many
jobs.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import AskedFlag
from aitne.core.models.job import JobFilter, JobOrigin, JobType
from aitne.core.models.job_filter_conditions import JobConditions


class JobSort(StrEnum):
    """Sort key for a list of jobs. A job that does not have the time yet counts as the latest."""

    CREATED = "created"
    STARTED = "started"
    ENDED = "ended"
    DURATION = "duration"
    """Sort by the time from start to end, or until the first page was requested; jobs that never
    started have the smallest value.
    """
    NAME = "name"
    OWNER = "owner"
    PROJECT = "project"
    STATE = "state"
    GPUS = "gpus"
    """Sort by the number of GPUs on all nodes of the job together."""


class SessionSearch(JobConditions):
    """Filter for jobs or sessions; all given conditions must be met. Without conditions, it matches
    all that the user may see.
    """

    state: list[JobState] = Field(
        [], max_length=40, description="Only these states; may be repeated."
    )
    q: str | None = Field(None, max_length=200, description="Part of the name.", examples=["edsr"])
    top_level: AskedFlag = Field(False, description="Omit array tasks.")

    def to_filter(self, kind: JobType | None = None) -> JobFilter:
        """Return the corresponding ``JobFilter`` for the store, for jobs of type ``kind``; None: of
        both types.
        """
        shared = {name: getattr(self, name) for name in JobConditions.model_fields}
        return JobFilter(
            **shared,
            type=kind,
            states=frozenset(self.state),
            name_contains=self.q,
            top_level_only=self.top_level,
        )


class JobSearch(SessionSearch):
    """Filter for jobs: the conditions of ``SessionSearch``, and the type of the job."""

    type: JobType | None = Field(None, description="Only jobs, or only sessions.")
    origin: JobOrigin | None = Field(
        None, description="Only jobs submitted through the platform, or only those from outside."
    )

    def to_filter(self, kind: JobType | None = None) -> JobFilter:
        """Return the corresponding ``JobFilter`` for the store; ``kind``, if not None, replaces the
        type in this filter.
        """
        job_filter = super().to_filter(kind or self.type)
        return job_filter.model_copy(update={"origin": self.origin})
