"""Health check of the scheduler."""

from __future__ import annotations

from datetime import datetime

from aitne.core.models.health import HealthState
from aitne.core.units import describe_duration
from aitne.services.cluster.cluster import ClusterService
from aitne.services.platform.health_check_result import (
    DEGRADED,
    DOWN,
    OK,
    Facts,
    HealthCheckResult,
)


async def check_scheduler(cluster: ClusterService, name: str, now: datetime) -> HealthCheckResult:
    """Check whether the scheduler ``name`` answers and accepts jobs."""
    look = await cluster.look()
    age = None if look.as_of is None else (now - look.as_of).total_seconds()
    facts: Facts = {
        "adapter": name,
        "last_poll_age_s": None if age is None else round(age, 1),
        "nodes": len(look.cluster.nodes),
    }
    status = look.scheduler
    if status is None or age is None:
        says = f"{name} has not been polled yet."
        return HealthCheckResult(HealthState.UNKNOWN, says, "See the controller.", None, facts)
    if not status.responding:
        return HealthCheckResult(
            DOWN,
            f"{name} does not answer: {status.message or 'no reason is known'}",
            "Running jobs continue. New jobs are stored and submitted later. Check slurmctld, or "
            "the broker.",
            status.since,
            facts,
        )
    if look.stale:
        says = f"{name} was last polled {describe_duration(int(age))} ago."
        return HealthCheckResult(
            DEGRADED, says, "States may be old. See the controller.", None, facts
        )
    if status.message is not None:
        return HealthCheckResult(
            DEGRADED,
            f"{name} answers, but takes no new jobs: {status.message}",
            "Jobs are stored and submitted later. See the log of slurmctld, and whether the file "
            "system of its StateSaveLocation is full.",
            None,
            facts,
        )
    return HealthCheckResult(
        OK, f"{name} answers; polled {age:.0f} s ago.", None, status.since, facts
    )
