"""Profile of the collectives of a job's ranks, read from their program, which may write anything.

The document is ``aitne.distrib``'s (``distrib/report.py`` describes it). Unknown fields are
ignored, and one invalid value invalidates the whole document.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from aitne.core.models.base import Frozen, UtcTime

MOST_BYTES = 256 << 10
MOST_ROWS = 1_024

Seconds = Annotated[float, Field(ge=0, le=1e10)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1 << 62)]
Rank = Annotated[int, Field(ge=0, le=1 << 20)]


class _Part(Frozen):
    """Base class without infinities, which JSON cannot represent."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Straggler(_Part):
    """The straggler: the rank for which the others wait."""

    rank: Rank
    """Its number."""
    node: Rank
    """Number of its node."""
    behind_s: Seconds
    """Additional time that it computes in each step, beyond the median of the others."""
    share: Share | None = None
    """``behind_s`` as a share of the step."""


class SizeRow(_Part):
    """Row of the profile's table: the collectives of one operation within one range of message
    sizes.
    """

    op: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,39}$")]
    """The operation: ``allreduce``, ``broadcast``, …"""
    from_bytes: Count
    """Messages of at least so many bytes."""
    to_bytes: Count | None = None
    """None: no bound."""
    count: Count
    """Number of operations, of the rank with most; so ``bytes``."""
    bytes: Count
    """Number of bytes that it moved."""
    time_s: Seconds
    """Mean of the ranks that took part."""
    fastest_s: Seconds | None = None
    """The least that a rank spent, in seconds."""
    slowest_s: Seconds | None = None
    """The most that a rank spent, in seconds."""
    bus_bytes_per_s: Annotated[float, Field(ge=0, le=1e18)] = 0
    """As NVIDIA's nccl-tests define it."""


class RankRow(_Part):
    """Measurements of one rank: its steps and its time in communication."""

    rank: Rank
    """Its number."""
    node: Rank
    """Number of its node."""
    steps: Count
    """Number of steps that it has done."""
    step_s: Seconds | None = None
    """Seconds in a step, on average."""
    communicating: Share | None = None
    """Share of its steps in which a collective ran."""
    blocked: Share | None = None
    """Share of its steps in which it was blocked by others."""
    overlap: Share | None = None
    """Share of its communication that was overlapped with computation."""
    own_s: Seconds | None = None
    """Duration of a step without the time spent waiting for others."""
    records: Count = 0
    """Number of records that it has written."""
    dropped: Count = 0
    """Records that were lost."""


class Point(_Part):
    """A point of the profile's chart: measurements of a part of the run."""

    t_s: Seconds
    """Seconds since the run started."""
    steps: Count
    """Number of steps in this period."""
    step_s: Seconds | None = None
    """Seconds in a step, on average."""
    communicating: Share | None = None
    """Share of the steps in which a collective ran."""
    blocked: Share | None = None
    """Share of the steps in which the program was blocked by it."""


class Profile(_Part):
    """Profile of the collectives of a distributed job until ``written_at``."""

    schema_: Literal[1] = Field(1, alias="schema")
    """The version of this document."""
    written_at: UtcTime
    """Time at which the program wrote it."""
    final: bool = False
    """Nothing more will come."""
    size: Annotated[int, Field(ge=1, le=1 << 20)]
    """World size: the number of ranks."""
    steps: Count = 0
    """Number of steps that were done."""
    step_s: Seconds | None = None
    """Seconds in a step, on average."""
    elapsed_s: Seconds = 0
    """Seconds since the run started."""
    communicating: Share | None = None
    """Share of the steps in which a collective ran."""
    blocked: Share | None = None
    """Share of the steps in which the program was blocked by it."""
    overlap: Share | None = None
    """Share of the communication that was overlapped with computation."""
    straggler: Straggler | None = None
    """None: no rank keeps the others waiting."""
    table: tuple[SizeRow, ...] = Field(default=(), max_length=MOST_ROWS)
    """By operation and message size."""
    ranks: tuple[RankRow, ...] = Field(default=(), max_length=MOST_ROWS)
    """By rank."""
    history: tuple[Point, ...] = Field(default=(), max_length=MOST_ROWS)
    """Course of the run, oldest point first."""
