"""Two runs side by side."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.states import JobState

Cell = str | float | int | bool | None


class Row(Frozen):
    """One field that both runs have, or one of them."""

    field: str = Field(description="What it is: a field of the job file, a package, a metric.")
    a: Cell = Field(description="Of the first run; null: it has none.")
    b: Cell = Field(description="Of the second run; null: it has none.")
    same: bool = Field(description="Whether they are equal.")
    unit: str | None = Field(None, description="bytes, seconds or share; null: as it is.")


class Section(Frozen):
    """Rows that belong together."""

    key: str = Field(
        description="job, resources, parameters, code, packages, data, node, outcome, use or metrics."
    )
    rows: list[Row] = Field(description="In the order in which they are read.")
    same_left_out: int = Field(0, description="How many more are equal, and not listed.")
    note: str | None = Field(None, description="Why it says less than it might, as a sentence.")


class Compared(Frozen):
    """One of the two runs, for the head of its column."""

    id: UUID = Field(description="The job's id.")
    name: str = Field(description="The job's name.")
    owner: str = Field(description="Who ran it.")
    state: JobState = Field(description="How far it is.")
    created_at: UtcTime = Field(description="When it was asked for.")
    array_task_id: int | None = Field(description="Of an array's task: its index.")
    diff: str | None = Field(description="Its uncommitted changes; null: it is not known.")


class Comparison(Frozen):
    """Everything in which two runs may differ."""

    a: Compared = Field(description="The first run.")
    b: Compared = Field(description="The second run.")
    differences: int = Field(description="How many rows differ.")
    sections: list[Section] = Field(description="What they may differ in.")
