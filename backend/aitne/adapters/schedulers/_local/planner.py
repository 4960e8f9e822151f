"""Selection of the tasks that start now: first in, first out, with EASY backfill. Pure: it uses no
clock and no processes.

The first pending job that does not fit (the head) gets a reservation: the earliest time at which it
fits if the running jobs end at their time limits. A later job may start now only if the head can
still start at that time, so the head is never delayed (Lifka 1995,
https://doi.org/10.1007/3-540-60153-8_35).

A job for which a limit of its project or user has no room does not become the head: other jobs, to
which the limit does not apply, start before it. It has a reservation of the same kind in its
limits, so that jobs of the same project or user do not delay it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aitne.adapters.schedulers._local.limit_ledger import Cap, CapKey, LimitBlock, LimitLedger
from aitne.adapters.schedulers._local.node_resources import (
    Demand,
    FreeResources,
    Grant,
    NodeCapacity,
    RunningTask,
    WaitingTask,
    describe_demand,
)

BACKFILL_DEPTH = 500
"""Maximum number of jobs behind the head that are considered for backfill."""
FORECAST_DEPTH = 50
"""Maximum number of pending jobs for which a start time is estimated."""


@dataclass(slots=True)
class SchedulePlan:
    """Decision of the planner. All fields are indexed by the key of the task."""

    starts: dict[int, tuple[Grant, ...]] = field(default_factory=dict)
    """Allocations of the tasks that start now."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Pending reasons of tasks that wait for resources."""
    limited: dict[int, LimitBlock] = field(default_factory=dict)
    """Limits that keep tasks pending; these tasks have no entry in ``reasons``."""


def make_schedule_plan(
    nodes: Sequence[NodeCapacity],
    running: Sequence[RunningTask],
    waiting: Sequence[WaitingTask],
    now: float,
    caps: Mapping[CapKey, Cap] | None = None,
) -> SchedulePlan:
    """Decide which pending tasks start now.

    Args:
        nodes: all nodes.
        running: tasks that have allocated resources.
        waiting: pending tasks in the order of submission.
        now: current time in seconds since 1970.
        caps: limits of projects and members; None: no limits.
    """
    result = SchedulePlan()
    free = FreeResources(nodes)
    whole = free.copy()
    running = list(running)
    for running_job in running:
        free.allocate(running_job.demand, running_job.grants)
    in_group = Counter(running_job.group for running_job in running)
    ledger = LimitLedger(caps or {}, nodes, running, now)
    head: Demand | None = None
    shadow, then = 0.0, free
    ahead = looked_at = 0
    for job in waiting:
        if job.throttle is not None and in_group[job.group] >= job.throttle:
            result.reasons[job.key] = f"Waits for its array: at most {job.throttle} at once"
            continue
        demand, block = ledger.check_start(job, whole)
        if block is not None:
            result.limited[job.key] = block
            ledger.reserve(job, whole)
            continue
        grants = None
        if head is None or looked_at < BACKFILL_DEPTH:
            looked_at += head is not None
            grants = free.choose_grants(demand)
        if grants is not None and head is not None and now + demand.time_limit_s > shadow:
            trial = then.copy()
            trial.allocate(demand, grants)
            if trial.fits(head):
                then = trial
            else:
                grants = None
        if grants is not None:
            free.allocate(demand, grants)
            started = RunningTask(demand, grants, now + demand.time_limit_s, job.group, job.owner)
            running.append(started)
            ledger.add(started)
            in_group[job.group] += 1
            result.starts[job.key] = grants
            continue
        if head is None:
            if not whole.fits(demand):
                # The nodes have shrunk since it was accepted: it must not delay other jobs.
                result.reasons[job.key] = (
                    f"Waits for nodes with {describe_demand(demand)}: no node is that large any more"
                )
                continue
            head = demand
            result.reasons[job.key] = free.explain_shortage(head)
            shadow, then, _ = _find_earliest_start(free, running, head, now)
            ledger.reserve(job, whole, shadow)
        else:
            result.reasons[job.key] = f"Waits behind {ahead} job{'s' * (ahead > 1)}"
        ahead += 1
    return result


def forecast_start_times(
    nodes: Sequence[NodeCapacity],
    running: Sequence[RunningTask],
    waiting: Sequence[WaitingTask],
    now: float,
    caps: Mapping[CapKey, Cap] | None = None,
) -> dict[int, float]:
    """Return the latest start times of the first ``FORECAST_DEPTH`` pending tasks, by key, in
    seconds since 1970, if all tasks run to their time limits. Tasks that a limit or throttle may
    delay have no entry.
    """
    free, whole = FreeResources(nodes), FreeResources(nodes)
    ledger = LimitLedger(caps or {}, nodes, running, now)
    for running_job in running:
        free.allocate(running_job.demand, running_job.grants)
    going = list(running)
    starts: dict[int, float] = {}
    time = now
    for job in waiting[:FORECAST_DEPTH]:
        demand, block = ledger.check_start(job, whole)
        if block is not None:
            ledger.reserve(job, whole)
        if block is not None or job.throttle is not None or not whole.fits(demand):
            continue
        time, free, going = _find_earliest_start(free, going, demand, time)
        grants = free.choose_grants(demand)
        if grants is None:
            continue
        free.allocate(demand, grants)
        started = RunningTask(demand, grants, time + demand.time_limit_s, owner=job.owner)
        going.append(started)
        ledger.add(started)
        starts[job.key] = time
    return starts


def _find_earliest_start(
    free: FreeResources, running: Sequence[RunningTask], demand: Demand, now: float
) -> tuple[float, FreeResources, list[RunningTask]]:
    """Return the earliest time at which ``demand`` fits, the resources that are free then, and the
    jobs that are still running then.
    """
    then = free.copy()
    time = now
    ending = sorted(running, key=lambda job: job.ends_at)
    position = 0
    while not then.fits(demand) and position < len(ending):
        time = max(now, ending[position].ends_at)
        while position < len(ending) and ending[position].ends_at <= time:
            then.release(ending[position].demand, ending[position].grants)
            position += 1
    return time, then, ending[position:]
