"""Health check of the scheduler."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from aitne.core.models.health import HealthState
from aitne.core.platform.metric_names import SCHEDULER_STATE_LOST
from aitne.core.units import describe_duration
from aitne.services.cluster.cluster import ClusterService
from aitne.services.monitoring.health_check_result import (
    DEGRADED,
    DOWN,
    OK,
    Facts,
    HealthCheckResult,
)
from aitne.store import Store

STATE_LOST_NOTICE = timedelta(hours=24)
"""Time for which a restart in which the scheduler lost its state is reported."""


async def check_scheduler(
    store: Store, cluster: ClusterService, name: str, now: datetime
) -> HealthCheckResult:
    """Check whether the scheduler ``name`` answers, accepts jobs and has kept its state."""
    look = await cluster.get_snapshot()
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
    lost_at = await _state_lost_at(store, now)
    if lost_at is not None:
        return HealthCheckResult(
            DEGRADED,
            f"{name} lost its state when it restarted at {lost_at:%Y-%m-%d %H:%M:%S} UTC, and "
            "running jobs with it.",
            "They are LOST, and retried where their retry policy says so. See the log of slurmctld, "
            "and whether its StateSaveLocation was replaced or emptied.",
            lost_at,
            facts,
        )
    return HealthCheckResult(
        OK, f"{name} answers; polled {age:.0f} s ago.", None, status.since, facts
    )


async def _state_lost_at(store: Store, now: datetime) -> datetime | None:
    """Return the time of the restart in which the scheduler lost running jobs; None if there was
    none within ``STATE_LOST_NOTICE``.
    """
    lease = await store.find_lease("controller")
    noted = {} if lease is None else lease.counters.get(SCHEDULER_STATE_LOST.name, {})
    for timestamp in noted.values():
        lost_at = datetime.fromtimestamp(timestamp, UTC)
        if now < lost_at + STATE_LOST_NOTICE:
            return lost_at
    return None
