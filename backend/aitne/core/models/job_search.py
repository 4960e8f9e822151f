"""Filters and sort keys for lists of jobs, used by the API, saved views and requests about many
jobs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import AskedFlag, ProjectName, Strict, UserName, UtcTime
from aitne.core.models.job import JobFilter, JobOrigin, JobType

NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]


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


class SessionSearch(Strict):
    """Filter for jobs or sessions; all given conditions must be met. Without conditions, it matches
    all that the user may see.
    """

    state: list[JobState] = Field(
        [], max_length=40, description="Only these states; may be repeated."
    )
    owner: UserName | None = Field(None, description="Only jobs of this user.")
    project: ProjectName | None = Field(None, description="Only jobs of this project.")
    q: str | None = Field(None, max_length=200, description="Part of the name.", examples=["edsr"])
    template: str | None = Field(
        None, max_length=100, description="Only jobs of this template.", examples=["jupyterlab"]
    )
    image: str | None = Field(
        None, max_length=300, description="Only jobs of this image: its name, or name:version."
    )
    node: NodeName | None = Field(None, description="Only jobs that ran or run on this node.")
    partition: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        pattern=r"^[^\x00,]*$",
        description="Only jobs that ran, run or may run in this partition.",
        examples=["gpu"],
    )
    active_at: UtcTime | None = Field(
        None,
        description="Only jobs that had an allocation at this time.",
        examples=["2026-03-01T12:00:00Z"],
    )
    created_from: UtcTime | None = Field(
        None,
        description="Only jobs created at or after this time.",
        examples=["2026-01-01T00:00:00Z"],
    )
    created_before: UtcTime | None = Field(
        None, description="Only jobs created before this time.", examples=["2027-01-01T00:00:00Z"]
    )
    min_gpus: int | None = Field(
        None, ge=0, le=1 << 20, description="Minimum number of GPUs on all nodes together."
    )
    gpu_type: str | None = Field(
        None,
        max_length=80,
        description="Only jobs that requested this type of GPU.",
        examples=["a100"],
    )
    array: AskedFlag | None = Field(None, description="True: only array jobs; false: none of them.")
    array_job_id: UUID | None = Field(None, description="Only the tasks of this array job.")
    top_level: AskedFlag = Field(False, description="Omit array tasks.")

    def where(self, kind: JobType | None = None) -> JobFilter:
        """Return the corresponding ``JobFilter`` for the store, for jobs of type ``kind``; None: of
        both types.
        """
        return JobFilter(
            owner=self.owner,
            project=self.project,
            type=kind,
            states=frozenset(self.state),
            name_contains=self.q,
            template=self.template,
            image=self.image,
            node=self.node,
            partition=self.partition,
            active_at=self.active_at,
            created_from=self.created_from,
            created_before=self.created_before,
            min_gpus=self.min_gpus,
            gpu_type=self.gpu_type,
            array=self.array,
            array_job_id=self.array_job_id,
            top_level_only=self.top_level,
        )


class JobSearch(SessionSearch):
    """Filter for jobs: the conditions of ``SessionSearch``, and the type of the job."""

    type: JobType | None = Field(None, description="Only jobs, or only sessions.")
    origin: JobOrigin | None = Field(
        None, description="Only jobs submitted through the platform, or only those from outside."
    )

    def where(self, kind: JobType | None = None) -> JobFilter:
        """Return the corresponding ``JobFilter`` for the store; ``kind``, if not None, replaces the
        type in this filter.
        """
        job_filter = super().where(kind or self.type)
        return job_filter.model_copy(update={"origin": self.origin})
