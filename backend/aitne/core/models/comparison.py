"""Comparison of two jobs side by side."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from pydantic import Field

from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, UtcTime, deprecated_copy

Cell = str | float | int | bool | None


class Row(Frozen):
    """A field of one or both of the compared jobs, with its values."""

    field: str = Field(description="Name of a field of the job file, a package or a metric.")
    a: Cell = Field(description="Value of the first run; null: none.")
    b: Cell = Field(description="Value of the second run; null: none.")
    equal: bool = Field(description="Whether they are equal.")
    unit: str | None = Field(
        None, description="Unit of the values: bytes, seconds or share; null: none."
    )
    same: ClassVar = deprecated_copy("equal", bool)


class Section(Frozen):
    """Section of a comparison: fields of the jobs that belong together."""

    key: str = Field(
        description="job, resources, parameters, code, packages, data, node, outcome, use or metrics."
    )
    rows: list[Row] = Field(description="Rows in the order of display.")
    equal_omitted: int = Field(
        0, description="Number of further rows that are equal and not listed."
    )
    note: str | None = Field(
        None, description="Reason why the section is incomplete, as a sentence."
    )
    same_left_out: ClassVar = deprecated_copy("equal_omitted", int)


class Compared(Frozen):
    """One of the two compared jobs, as described in the heading of its column."""

    id: UUID = Field(description="The job's id.")
    name: str = Field(description="The job's name.")
    owner: str = Field(description="The job's owner.")
    state: JobState = Field(description="The job's state.")
    created_at: UtcTime = Field(description="Time of the job's creation.")
    array_task_id: int | None = Field(description="Index of an array task; null for other jobs.")
    diff: str | None = Field(description="Uncommitted changes; null: unknown.")


class Comparison(Frozen):
    """Comparison of two jobs, with the values of all fields in which they may differ."""

    a: Compared = Field(description="The first run.")
    b: Compared = Field(description="The second run.")
    differences: int = Field(description="Number of rows that differ.")
    sections: list[Section] = Field(description="Sections of the comparison.")
