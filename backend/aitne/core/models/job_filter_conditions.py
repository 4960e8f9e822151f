"""Conditions on jobs that the filters of users and of the store have in common."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import AskedFlag, ProjectName, Strict, UserName, UtcTime

NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$")]


class JobConditions(Strict):
    """Conditions on jobs, all of which must be met; ``SessionSearch`` and ``JobFilter`` inherit
    them.
    """

    owner: UserName | None = Field(None, description="Only jobs of this user.")
    project: ProjectName | None = Field(None, description="Only jobs of this project.")
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
