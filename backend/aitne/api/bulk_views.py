"""Requests and answers of the API for many jobs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Self
from uuid import UUID

from pydantic import Field, SkipValidation, model_validator

from aitne.api.job_views import JobView
from aitne.api.problems import Problem
from aitne.core.jobs.states import LIVE, JobState
from aitne.core.models.base import Frozen, Strict, deprecated_copy
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_search import JobSearch
from aitne.services.jobs.bulk import MOST, Cancelled, CancelOutcome

MOST_SUBMITTED = 100
"""Maximum number of job files in one request."""


class CancelJobs(Strict):
    """Jobs to cancel: either ``ids``, or ``filter`` and ``expected``."""

    ids: list[UUID] | None = Field(
        None, min_length=1, max_length=MOST, description="Jobs and sessions to cancel."
    )
    filter: JobSearch | None = Field(None, description="Cancel all that match and have not ended.")
    expected: int | None = Field(
        None, ge=0, le=MOST, description="Number of jobs that should match; required with filter."
    )

    @model_validator(mode="after")
    def _either(self) -> Self:
        by_filter = self.filter is not None and self.expected is not None
        if (self.ids is not None) == (self.filter is not None or self.expected is not None):
            raise ValueError("give either ids, or filter and expected")
        if self.ids is None and not by_filter:
            raise ValueError("filter and expected belong together")
        return self


class CancelResults(Frozen):
    """Outcome of the cancellation for each job."""

    requested: Annotated[int, Field(description="Number of jobs that are being cancelled.")]
    items: list[Cancelled]
    asked: ClassVar = deprecated_copy("requested", int)

    @classmethod
    def of(cls, items: Sequence[Cancelled]) -> Self:
        """Return the outcomes with the number of jobs that are cancelled."""
        count = sum(result.outcome is CancelOutcome.ASKED for result in items)
        return cls(requested=count, items=list(items))


class JobBatch(Strict):
    """Job files to submit together."""

    # Each file is validated by itself: what is wrong with one does not affect the others.
    items: list[SkipValidation[JobFile]] = Field(
        min_length=1, max_length=MOST_SUBMITTED, description="Job files, each of one job."
    )


class BatchResult(Frozen):
    """The job of one job file, or the problem for which the file was refused."""

    job: JobView | None = Field(description="The new job; null if the file was refused.")
    problem: Problem | None = Field(description="Reason of the refusal; null if there is a job.")
    replayed: bool = Field(
        False, description="Whether an earlier request with the same key created the job."
    )


class BatchResults(Frozen):
    """Results of a request to submit several jobs, in its order."""

    created: int = Field(description="Number of new jobs.")
    items: list[BatchResult]


class JobCounts(Frozen):
    """Number of jobs in each state; a state without any is omitted."""

    total: int
    """Number of jobs that match."""
    live: Annotated[int, Field(description="Number of jobs that have not ended.")]
    states: dict[JobState, int]
    """Number of jobs in each state."""

    @classmethod
    def of(cls, states: Mapping[JobState, int]) -> Self:
        """Return the counts with their sum and the number of jobs that have not ended."""
        return cls(
            total=sum(states.values()),
            live=sum(count for state, count in states.items() if state in LIVE),
            states=dict(sorted(states.items())),
        )
