"""Result of one health check."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from aitne.core.models.health import HealthState

OK, DEGRADED, DOWN = HealthState.OK, HealthState.DEGRADED, HealthState.DOWN

Facts = dict[str, str | int | float | None]


@dataclass(frozen=True, slots=True)
class HealthCheckResult:
    """Result of one health check: a state, a sentence about it and advice for administrators.

    ``since`` is the time at which the checked part changed to this state. None: the check cannot
    know it, and the time at which the state was first observed is shown instead.
    """

    state: HealthState
    says: str
    advice: str | None = None
    since: datetime | None = None
    facts: Facts = field(default_factory=dict)
