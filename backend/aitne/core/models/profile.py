"""What the ranks of a job say about how they exchange: read from their program, which may write anything.

The document is ``aitne.distrib``'s (``distrib/report.py`` describes it). What is not known is left out,
and what does not fit makes the whole document none.
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
    """Without infinities, which JSON has no word for."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Straggler(_Part):
    """The rank that the others wait for."""

    rank: Rank
    """Its number."""
    node: Rank
    """Number of its node."""
    behind_s: Seconds
    """How much longer it computes in each step than the median of the others."""
    share: Share | None = None
    """Of the step."""


class SizeRow(_Part):
    """One operation, and one range of message sizes: the row of a histogram."""

    op: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,39}$")]
    """The operation: ``allreduce``, ``broadcast``, …"""
    from_bytes: Count
    """Messages of at least so many bytes."""
    to_bytes: Count | None = None
    """None: no bound."""
    count: Count
    """Of the rank with most; so ``bytes``."""
    bytes: Count
    """How many bytes it moved."""
    time_s: Seconds
    """Mean of the ranks that took part."""
    fastest_s: Seconds | None = None
    """The least that a rank spent, in seconds."""
    slowest_s: Seconds | None = None
    """The most that a rank spent, in seconds."""
    bus_bytes_per_s: Annotated[float, Field(ge=0, le=1e18)] = 0
    """As NVIDIA's nccl-tests define it."""


class RankRow(_Part):
    """One rank."""

    rank: Rank
    """Its number."""
    node: Rank
    """Number of its node."""
    steps: Count
    """How many steps it has done."""
    step_s: Seconds | None = None
    """Seconds in a step, on average."""
    communicating: Share | None = None
    """Share of its steps in which a collective ran."""
    blocked: Share | None = None
    """Share of its steps in which it stood still for others."""
    overlap: Share | None = None
    """Share of its communication that was hidden behind computation."""
    own_s: Seconds | None = None
    """What a step lasts without what it waits for others."""
    records: Count = 0
    """How many records it has written."""
    dropped: Count = 0
    """Records that were lost."""


class Point(_Part):
    """A stretch of the run, for a chart."""

    t_s: Seconds
    """Seconds since the run began."""
    steps: Count
    """How many steps this stretch has."""
    step_s: Seconds | None = None
    """Seconds in a step, on average."""
    communicating: Share | None = None
    """Share of the steps in which a collective ran."""
    blocked: Share | None = None
    """Share of the steps in which the program stood still for it."""


class Profile(_Part):
    """How the ranks of a run have exchanged so far."""

    schema_: Literal[1] = Field(1, alias="schema")
    """The version of this document."""
    written_at: UtcTime
    """When the program wrote it."""
    final: bool = False
    """Nothing more will come."""
    size: Annotated[int, Field(ge=1, le=1 << 20)]
    """How many ranks."""
    steps: Count = 0
    """How many steps were done."""
    step_s: Seconds | None = None
    """Seconds in a step, on average."""
    elapsed_s: Seconds = 0
    """Seconds since the run began."""
    communicating: Share | None = None
    """Share of the steps in which a collective ran."""
    blocked: Share | None = None
    """Share of the steps in which the program stood still for it."""
    overlap: Share | None = None
    """Share of the communication that was hidden behind computation."""
    straggler: Straggler | None = None
    """None: no rank keeps the others waiting."""
    table: tuple[SizeRow, ...] = Field(default=(), max_length=MOST_ROWS)
    """By operation and message size."""
    ranks: tuple[RankRow, ...] = Field(default=(), max_length=MOST_ROWS)
    """By rank."""
    history: tuple[Point, ...] = Field(default=(), max_length=MOST_ROWS)
    """How the run went, oldest first."""
