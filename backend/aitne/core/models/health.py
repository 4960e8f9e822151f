"""Health of each part of the platform, for administrators."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime


class HealthState(StrEnum):
    """Health of one part of the platform."""

    OK = "ok"
    UNKNOWN = "unknown"
    """The state could not be determined."""
    DEGRADED = "degraded"
    """It works, and an administrator should look at it."""
    DOWN = "down"
    """It does not work."""


SEVERITY = (HealthState.OK, HealthState.UNKNOWN, HealthState.DEGRADED, HealthState.DOWN)
"""From good to bad."""


class PartHealth(Frozen):
    """One part of the platform."""

    name: str = Field(
        description="api, database, controller, scheduler, queue, events, hub, proxy, broker, "
        "storage, disk or templates.",
        examples=["scheduler"],
    )
    state: HealthState = Field(description="How it does.")
    says: str = Field(
        description="The same as a sentence.", examples=["Slurm answers; last asked 2 s ago."]
    )
    advice: str | None = Field(None, description="What to do about it; null: nothing.")
    since: UtcTime = Field(description="Since when it is in this state, as far as anybody knows.")
    last_problem: str | None = Field(
        None, description="What was wrong when it last was not ok, since the API started."
    )
    last_problem_at: UtcTime | None = Field(None, description="When that was seen last.")
    facts: dict[str, str | int | float | None] = Field(
        default_factory=dict,
        description="Numbers behind it: versions, times in seconds, sizes in bytes, counts.",
        examples=[{"latency_s": 0.002}],
    )


class Health(Frozen):
    """Every part, the worst first."""

    state: HealthState = Field(description="That of the worst part.")
    version: str = Field(description="The platform's release.", examples=["0.6.0"])
    as_of: UtcTime = Field(description="When it was looked at.")
    parts: tuple[PartHealth, ...] = Field(description="The worst first.")
