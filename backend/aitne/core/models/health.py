"""Health of each part of the platform, for administrators."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime, deprecated_copy


class HealthState(StrEnum):
    """Health of one part of the platform."""

    OK = "ok"
    UNKNOWN = "unknown"
    """The state could not be determined."""
    DEGRADED = "degraded"
    """It works, but needs the attention of an administrator."""
    DOWN = "down"
    """It does not work."""


SEVERITY = (HealthState.OK, HealthState.UNKNOWN, HealthState.DEGRADED, HealthState.DOWN)
"""All states from the best to the worst."""


class PartHealth(Frozen):
    """Health of one part of the platform, such as the database."""

    name: str = Field(
        description="Name of the check, such as api, database, controller, scheduler, nodes, queue, "
        "hub, proxy, broker, storage, disk, templates, secrets, backup or doctor (what `aitne admin "
        "doctor` found last on the host and the nodes).",
        examples=["scheduler"],
    )
    state: HealthState = Field(description="State of the part.")
    message: str = Field(
        description="State of the part as a sentence.",
        examples=["Slurm answers; last asked 2 s ago."],
    )
    advice: str | None = Field(None, description="Recommended action; null: none.")
    since: UtcTime = Field(
        description="Time since which it has been in this state, as far as known."
    )
    last_problem: str | None = Field(None, description="Last problem since the start of the API.")
    last_problem_at: UtcTime | None = Field(
        None, description="Time at which that problem was last observed."
    )
    facts: dict[str, str | int | float | None] = Field(
        default_factory=dict,
        description="Measured facts: versions, times in seconds, sizes in bytes, counts.",
        examples=[{"latency_s": 0.002}],
    )
    says: ClassVar = deprecated_copy("message", str)


class Health(Frozen):
    """Health of the platform: the state of every part, the worst first."""

    state: HealthState = Field(description="State of the worst part.")
    version: str = Field(description="The platform's release.", examples=["0.6.0"])
    as_of: UtcTime = Field(description="Time of the check.")
    parts: tuple[PartHealth, ...] = Field(description="All parts, the worst first.")
