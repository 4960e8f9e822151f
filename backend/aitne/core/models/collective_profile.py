"""Profile of the collectives of a job's ranks. Their program wrote it, so its content is not
trusted.

``aitne_train/profile_document.py`` describes the document. Unknown fields are ignored, and one invalid value
invalidates the whole document.
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
    """Base class that rejects infinity and NaN, which JSON cannot represent."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Straggler(_Part):
    """The straggler: the rank for which the others wait."""

    rank: Rank
    """Number of the rank."""
    node: Rank
    """Number of the rank's node."""
    behind_s: Seconds
    """Additional seconds that the rank computes in each step, compared with the median of the other
    ranks.
    """
    share: Share | None = None
    """Ratio of ``behind_s`` to the duration of a step, from 0 to 1."""


class SizeRow(_Part):
    """Statistics of one operation for one range of message sizes, a row of the profile's table."""

    op: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,39}$")]
    """Name of the collective: ``allreduce``, ``broadcast``, …"""
    from_bytes: Count
    """Minimum message size in bytes."""
    to_bytes: Count | None = None
    """Message size in bytes below which the row applies; None: no upper bound."""
    count: Count
    """Number of operations of the rank that executed the most."""
    bytes: Count
    """Number of bytes that the rank with the most transferred."""
    time_s: Seconds
    """Mean time in seconds over the participating ranks."""
    fastest_s: Seconds | None = None
    """Smallest time of a rank, in seconds."""
    slowest_s: Seconds | None = None
    """Largest time of a rank, in seconds."""
    bus_bytes_per_s: Annotated[float, Field(ge=0, le=1e18)] = 0
    """Bus bandwidth in bytes per second, as defined by NVIDIA's nccl-tests."""


class RankRow(_Part):
    """Measurements of one rank: its steps and its time in communication."""

    rank: Rank
    """Number of the rank."""
    node: Rank
    """Number of the rank's node."""
    steps: Count
    """Number of steps that the rank has completed."""
    step_s: Seconds | None = None
    """Mean duration of a step in seconds."""
    communicating: Share | None = None
    """Share of the time of its steps in which a collective was running, from 0 to 1."""
    blocked: Share | None = None
    """Share of the time of its steps in which it waited for a collective, from 0 to 1."""
    overlap: Share | None = None
    """Share of the communication time that overlapped with computation, from 0 to 1."""
    own_s: Seconds | None = None
    """Mean duration of a step in seconds, without the time spent waiting for other ranks."""
    records: Count = 0
    """Number of records in the rank's profile."""
    dropped: Count = 0
    """Number of records that were lost and are missing in the profile."""


class Point(_Part):
    """Measurements of one period of the run, a point of the profile's chart."""

    t_s: Seconds
    """Seconds since the run started."""
    steps: Count
    """Number of steps in this period."""
    step_s: Seconds | None = None
    """Mean duration of a step in seconds."""
    communicating: Share | None = None
    """Share of the time of the steps in which a collective was running, from 0 to 1."""
    blocked: Share | None = None
    """Share of the time of the steps in which the program waited for a collective, from 0 to 1."""


class Profile(_Part):
    """Profile of the collectives of a distributed job until ``written_at``."""

    schema_: Literal[1] = Field(1, alias="schema")
    """Version of the document's format."""
    written_at: UtcTime
    """Time at which the program wrote the document."""
    final: bool = False
    """Whether the program writes no later document."""
    size: Annotated[int, Field(ge=1, le=1 << 20)]
    """World size: the number of ranks."""
    steps: Count = 0
    """Number of steps that were completed."""
    step_s: Seconds | None = None
    """Mean duration of a step in seconds."""
    elapsed_s: Seconds = 0
    """Seconds since the run started."""
    communicating: Share | None = None
    """Share of the time of the steps in which a collective was running, from 0 to 1."""
    blocked: Share | None = None
    """Share of the time of the steps in which the program waited for a collective, from 0 to 1."""
    overlap: Share | None = None
    """Share of the communication time that overlapped with computation, from 0 to 1."""
    straggler: Straggler | None = None
    """Rank for which the other ranks wait; None if there is none."""
    table: tuple[SizeRow, ...] = Field(default=(), max_length=MOST_ROWS)
    """Statistics by operation and message size."""
    ranks: tuple[RankRow, ...] = Field(default=(), max_length=MOST_ROWS)
    """Measurements of each rank."""
    history: tuple[Point, ...] = Field(default=(), max_length=MOST_ROWS)
    """Measurements of consecutive periods of the run, oldest first."""
