"""Selection of the tasks that start now: first in, first out, with EASY backfill. Pure: no clock,
no processes.

The first waiting job that does not fit (the head) gets a reservation: the earliest time at which it fits if
the running jobs end at their time limits. A later job may start now only if the head can still start at that
time, so the head is never delayed (Lifka 1995, https://doi.org/10.1007/3-540-60153-8_35).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aitne.core.units import format_memory

BACKFILL_DEPTH = 500
"""Number of jobs behind the head that are considered."""
FORECAST_DEPTH = 50
"""Number of waiting jobs for which a start time is estimated."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPU of a node: the index by which CUDA knows it, and its type."""

    index: int
    type: str | None = None


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """Resources of one node."""

    name: str
    cpus: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """Resources that a job requests, for each of ``nodes`` nodes."""

    nodes: int
    cpus: int
    memory_bytes: int
    gpus: int = 0
    gpu_type: str | None = None
    time_limit_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class Grant:
    """Resources allocated to a job on one node."""

    node: str
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningTask:
    """Job or array task that holds resources, until ``ends_at`` (seconds since 1970) at
    the latest.
    """

    demand: Demand
    grants: tuple[Grant, ...]
    ends_at: float
    group: int = 0
    """Number of the array that it belongs to; 0 means none."""


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """Job or array task that waits only for resources. ``throttle`` is the maximum number of tasks
    of its array that run at once; None: no maximum.
    """

    key: int
    demand: Demand
    group: int = 0
    throttle: int | None = None


@dataclass(slots=True)
class SchedulePlan:
    """Decision of the planner: the tasks to start, with their allocations, and the pending reasons
    of the others.
    """

    starts: dict[int, tuple[Grant, ...]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


class FreeResources:
    """Free CPUs, memory and GPUs of every node, with methods to allocate and release them."""

    def __init__(self, nodes: Iterable[NodeCapacity]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.cpus = {name: node.cpus for name, node in self.nodes.items()}
        self.memory = {name: node.memory_bytes for name, node in self.nodes.items()}
        self.gpus = {name: list(node.gpus) for name, node in self.nodes.items()}

    def copy(self) -> FreeResources:
        """Return an independent copy."""
        twin = FreeResources(())
        twin.nodes = self.nodes
        twin.cpus = dict(self.cpus)
        twin.memory = dict(self.memory)
        twin.gpus = {name: list(gpus) for name, gpus in self.gpus.items()}
        return twin

    def take(self, demand: Demand, grants: Iterable[Grant]) -> None:
        """Subtract the resources of an allocation; nodes that are no longer configured
        are skipped.
        """
        for grant in grants:
            if grant.node in self.nodes:
                self.cpus[grant.node] -= demand.cpus
                self.memory[grant.node] -= demand.memory_bytes
                self.gpus[grant.node] = [
                    gpu for gpu in self.gpus[grant.node] if gpu.index not in grant.gpus
                ]

    def give(self, demand: Demand, grants: Iterable[Grant]) -> None:
        """Add the resources of an allocation again; the inverse of ``take``."""
        for grant in grants:
            if grant.node in self.nodes:
                self.cpus[grant.node] += demand.cpus
                self.memory[grant.node] += demand.memory_bytes
                back = [gpu for gpu in self.nodes[grant.node].gpus if gpu.index in grant.gpus]
                self.gpus[grant.node] = sorted(
                    {*self.gpus[grant.node], *back}, key=lambda gpu: gpu.index
                )

    def choose(self, demand: Demand) -> tuple[Grant, ...] | None:
        """Choose nodes for the demand; None if too few have the resources free.

        Nodes with the fewest free GPUs, then other resources, come first, so that free GPUs stay
        together.
        """
        fitting = [name for name in self.nodes if self._fits(name, demand)]
        if len(fitting) < demand.nodes:
            return None
        order = {name: position for position, name in enumerate(self.nodes)}
        fitting.sort(key=lambda name: (len(self.gpus[name]), self.cpus[name], order[name]))
        chosen = sorted(fitting[: demand.nodes], key=order.__getitem__)
        return tuple(
            Grant(name, tuple(gpu.index for gpu in self._gpus_for(name, demand)[: demand.gpus]))
            for name in chosen
        )

    def fits(self, demand: Demand) -> bool:
        """Return whether enough nodes have the resources free."""
        return sum(self._fits(name, demand) for name in self.nodes) >= demand.nodes

    def _fits(self, name: str, demand: Demand) -> bool:
        return (
            self.cpus[name] >= demand.cpus
            and self.memory[name] >= demand.memory_bytes
            and (demand.gpus == 0 or len(self._gpus_for(name, demand)) >= demand.gpus)
        )

    def _gpus_for(self, name: str, demand: Demand) -> list[Gpu]:
        if demand.gpu_type is None:
            return self.gpus[name]
        return [gpu for gpu in self.gpus[name] if gpu.type == demand.gpu_type]

    def explain(self, demand: Demand) -> str:
        """Return why ``demand`` does not fit, with the relevant numbers."""
        if demand.nodes > 1:
            able = sum(self._fits(name, demand) for name in self.nodes)
            return (
                f"Waits for {demand.nodes} nodes with {describe(demand)} each: "
                f"{able} of {len(self.nodes)} have that free"
            )
        kind = "GPUs" if demand.gpu_type is None else f"{demand.gpu_type} GPUs"
        for need, unit, free in (
            (demand.gpus, kind, {name: len(self._gpus_for(name, demand)) for name in self.nodes}),
            (demand.cpus, "CPUs", self.cpus),
        ):
            best = max(free, key=free.__getitem__)
            if need > free[best]:
                whole = self.nodes[best].cpus if unit == "CPUs" else len(self.nodes[best].gpus)
                unit = unit if need > 1 else unit.removesuffix("s")
                scope = "" if len(self.nodes) == 1 else " on one node"
                verb = "is" if free[best] == 1 else "are"
                return (
                    f"Waits for {need} {unit}{scope}: {max(0, free[best])} of {whole} {verb} free"
                )
        max_bytes = max(self.memory.values())
        if demand.memory_bytes > max_bytes:
            return (
                f"Waits for {format_memory(demand.memory_bytes)} of memory on one node: "
                f"{_rounded(max(0, max_bytes))} are free"
            )
        return f"Waits for a node on which {describe(demand)} are free together"


def describe(demand: Demand) -> str:
    """Describe the request for each node: ``2 CPUs, 4G and 1 a100 GPU``."""
    parts = [f"{demand.cpus} CPU{'s' * (demand.cpus > 1)}", format_memory(demand.memory_bytes)]
    if demand.gpus:
        kind = "" if demand.gpu_type is None else f"{demand.gpu_type} "
        parts.append(f"{demand.gpus} {kind}GPU{'s' * (demand.gpus > 1)}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]])


def _rounded(amount_bytes: int) -> str:
    return f"{amount_bytes / (1 << 30):.1f}G"


def plan(
    nodes: Sequence[NodeCapacity],
    running: Sequence[RunningTask],
    waiting: Sequence[WaitingTask],
    now: float,
) -> SchedulePlan:
    """Decide which waiting tasks start now. ``waiting`` is in the order of submission, ``now`` in
    seconds since 1970.
    """
    result = SchedulePlan()
    free = FreeResources(nodes)
    whole = free.copy()
    running = list(running)
    for running_job in running:
        free.take(running_job.demand, running_job.grants)
    in_group = Counter(running_job.group for running_job in running)
    head: Demand | None = None
    shadow, then = 0.0, free
    ahead = looked_at = 0
    for job in waiting:
        if job.throttle is not None and in_group[job.group] >= job.throttle:
            result.reasons[job.key] = f"Waits for its array: at most {job.throttle} at once"
            continue
        grants = None
        if head is None or looked_at < BACKFILL_DEPTH:
            looked_at += head is not None
            grants = free.choose(job.demand)
        if grants is not None and head is not None and now + job.demand.time_limit_s > shadow:
            trial = then.copy()
            trial.take(job.demand, grants)
            if trial.fits(head):
                then = trial
            else:
                grants = None
        if grants is not None:
            free.take(job.demand, grants)
            ends_at = now + job.demand.time_limit_s
            running.append(RunningTask(job.demand, grants, ends_at, job.group))
            in_group[job.group] += 1
            result.starts[job.key] = grants
            continue
        if head is None:
            if not whole.fits(job.demand):
                # The nodes have shrunk since it was accepted: it must not delay other jobs.
                result.reasons[job.key] = (
                    f"Waits for nodes with {describe(job.demand)}: no node is that large any more"
                )
                continue
            head = job.demand
            result.reasons[job.key] = free.explain(head)
            shadow, then, _ = _earliest(free, running, head, now)
        else:
            result.reasons[job.key] = f"Waits behind {ahead} job{'s' * (ahead > 1)}"
        ahead += 1
    return result


def forecast(
    nodes: Sequence[NodeCapacity],
    running: Sequence[RunningTask],
    waiting: Sequence[WaitingTask],
    now: float,
) -> dict[int, float]:
    """Return the latest start times of the first waiting tasks, by key, if all tasks run to their
    time limits.
    """
    free = FreeResources(nodes)
    for running_job in running:
        free.take(running_job.demand, running_job.grants)
    going = list(running)
    starts: dict[int, float] = {}
    time = now
    for job in waiting[:FORECAST_DEPTH]:
        if job.throttle is not None or not FreeResources(nodes).fits(job.demand):
            continue
        time, free, going = _earliest(free, going, job.demand, time)
        grants = free.choose(job.demand)
        if grants is None:
            continue
        free.take(job.demand, grants)
        going.append(RunningTask(job.demand, grants, time + job.demand.time_limit_s))
        starts[job.key] = time
    return starts


def _earliest(
    free: FreeResources, running: Sequence[RunningTask], demand: Demand, now: float
) -> tuple[float, FreeResources, list[RunningTask]]:
    """Return the earliest time at which ``demand`` fits, what is free then, and the jobs that still
    run then.
    """
    then = free.copy()
    time = now
    ending = sorted(running, key=lambda job: job.ends_at)
    position = 0
    while not then.fits(demand) and position < len(ending):
        time = max(now, ending[position].ends_at)
        while position < len(ending) and ending[position].ends_at <= time:
            then.give(ending[position].demand, ending[position].grants)
            position += 1
    return time, then, ending[position:]
