"""Models of the API's requests and responses for many jobs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Self
from uuid import UUID

from pydantic import Field, model_validator

from aitne.api.job_views import JobView
from aitne.api.problems import Problem
from aitne.core.jobs.states import LIVE, JobState
from aitne.core.models.base import Frozen, Strict, deprecated_copy
from aitne.core.models.job_search import JobSearch
from aitne.services.jobs.bulk_cancellation import MOST, Cancelled, CancelOutcome
from aitne.services.jobs.job_deletion import Deleted, DeleteOutcome


def check_selection(
    ids: Sequence[UUID] | None, where: JobSearch | None, expected: int | None
) -> None:
    """Check that a request selects jobs either by ids, or by a filter with the expected number.

    Raises ``ValueError`` if it does both or neither.
    """
    if (ids is not None) == (where is not None or expected is not None):
        raise ValueError("give either ids, or filter and expected")
    if ids is None and (where is None or expected is None):
        raise ValueError("filter and expected belong together")


MOST_SUBMITTED = 100
"""Maximum number of job files in one request."""


class CancelJobs(Strict):
    """Jobs to cancel: either those in ``ids``, or all that match ``filter``, whose number must be
    ``expected``."""

    ids: list[UUID] | None = Field(
        None, min_length=1, max_length=MOST, description="Jobs and sessions to cancel."
    )
    filter: JobSearch | None = Field(None, description="Cancel all that match and have not ended.")
    expected: int | None = Field(
        None, ge=0, le=MOST, description="Number of jobs that should match; required with filter."
    )

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        check_selection(self.ids, self.filter, self.expected)
        return self


class CancelResults(Frozen):
    """Outcome of the cancellation for each job."""

    requested: Annotated[int, Field(description="Number of jobs that are being cancelled.")]
    items: list[Cancelled]
    asked: ClassVar = deprecated_copy("requested", int)

    @classmethod
    def from_items(cls, items: Sequence[Cancelled]) -> Self:
        """Create the answer from the outcome for each job, and count the jobs that are being
        cancelled."""
        count = sum(result.outcome is CancelOutcome.ASKED for result in items)
        return cls(requested=count, items=list(items))


class JobBatch(Strict):
    """Job files to submit together."""

    # Each file is validated by itself: what is wrong with one does not affect the others.
    items: list[object] = Field(
        min_length=1,
        max_length=MOST_SUBMITTED,
        description="Job files, each of one job, as `POST /jobs` takes it (schema `JobFile`). What "
        "is wrong with one is the problem in its result.",
    )


class BatchResult(Frozen):
    """Result for one job file: the job that was created, or the problem for which it was
    rejected."""

    job: JobView | None = Field(description="The new job; null if the file was refused.")
    problem: Problem | None = Field(description="Reason of the refusal; null if there is a job.")
    replayed: bool = Field(
        False, description="Whether an earlier request with the same key created the job."
    )


class BatchResults(Frozen):
    """Results of a request to submit several job files, in the order of the request."""

    created: int = Field(description="Number of new jobs.")
    items: list[BatchResult]


class DeleteJobs(Strict):
    """Ended jobs to delete: either those in ``ids``, or all that match ``filter``, whose number
    must be ``expected``."""

    ids: list[UUID] | None = Field(
        None, min_length=1, max_length=MOST, description="Jobs and sessions to delete."
    )
    filter: JobSearch | None = Field(None, description="Delete all that match and have ended.")
    expected: int | None = Field(
        None, ge=0, le=MOST, description="Number of jobs that should match; required with filter."
    )

    @model_validator(mode="after")
    def _check_selection(self) -> Self:
        check_selection(self.ids, self.filter, self.expected)
        return self


class DeleteResults(Frozen):
    """Outcome of the deletion for each job."""

    requested: int = Field(description="Number of jobs that are being deleted.")
    items: list[Deleted]

    @classmethod
    def from_items(cls, items: Sequence[Deleted]) -> Self:
        """Create the answer from the outcome for each job, and count the jobs that are being
        deleted."""
        count = sum(result.outcome is DeleteOutcome.REQUESTED for result in items)
        return cls(requested=count, items=list(items))


class JobCounts(Frozen):
    """Number of jobs in each state; states without jobs are omitted."""

    total: int
    """Number of jobs that match."""
    live: Annotated[int, Field(description="Number of jobs that have not ended.")]
    states: dict[JobState, int]
    """Number of jobs in each state."""

    @classmethod
    def from_states(cls, states: Mapping[JobState, int]) -> Self:
        """Create the answer from the number of jobs in each state, with the total and the number of
        jobs that have not ended."""
        return cls(
            total=sum(states.values()),
            live=sum(count for state, count in states.items() if state in LIVE),
            states=dict(sorted(states.items())),
        )
