"""Accounting of the limits of projects and their members: how much is in use, and which pending
tasks may start. Pure: it uses no clock and no processes.

A pending task for which a limit has no room gets a reservation in all of its limits: the earliest
time at which they have room if the running tasks end at their time limits. A later task under the
same limit may start only if it ends before that time, or if the limit has room for both from then
on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from aitne.adapters.schedulers._local.node_resources import (
    Demand,
    FreeResources,
    NodeCapacity,
    Owner,
    RunningTask,
    WaitingTask,
)
from aitne.core.models.limits import GPU_TRES, Limits

JOBS = "jobs"
GPU_SECONDS = "gpu_s"
CapKey = tuple[str, str | None]
"""Project, and the member to whom the limits apply; None: the limits apply to the project as a
whole.
"""


@dataclass(frozen=True, slots=True)
class Cap:
    """Limits of one project or member, by resource: Slurm's TRES names (``mem`` in bytes), ``JOBS``
    and ``GPU_SECONDS``.
    """

    maximum: Mapping[str, int] = field(default_factory=dict)
    """Limits by resource; a resource without an entry is not limited."""
    gpu_s_used: float = 0.0
    """GPU-seconds used until now, including those of running tasks."""


@dataclass(frozen=True, slots=True)
class LimitBlock:
    """Limit that keeps a task pending."""

    key: CapKey
    """Project or member whose limit it is."""
    resource: str
    """Limited resource: a TRES name, ``JOBS`` or ``GPU_SECONDS``."""
    behind: bool = False
    """True if the limit has room for the task, but that room is reserved for an earlier task."""


def cap_of(limits: Limits, gpu_s_used: float) -> Cap:
    """Convert limits of a project or member, which apply to the total of all tasks, to a ``Cap``.
    ``gpu_s_used`` is the number of GPU-seconds used until now.
    """
    maximum = {
        "cpu": limits.max_cpus,
        "node": limits.max_nodes,
        "mem": limits.max_memory_bytes,
        GPU_TRES: limits.max_gpus,
        JOBS: limits.max_jobs,
        GPU_SECONDS: None if limits.gpu_hours is None else limits.gpu_hours * 3600,
        **{f"{GPU_TRES}:{kind}": count for kind, count in limits.max_gpus_by_type.items()},
    }
    return Cap({name: count for name, count in maximum.items() if count is not None}, gpu_s_used)


def keys_of(owner: Owner) -> tuple[CapKey, CapKey]:
    """Return the keys of all limits that apply to the owner's tasks: of the project's limits and of
    the member's own limits.
    """
    project, user = owner
    return (project, None), (project, user)


@lru_cache(maxsize=1024)
def compute_charged_amounts(demand: Demand) -> Mapping[str, float]:
    """Return the amount of each resource that a task uses in total on all its nodes: memory in
    bytes, GPU-seconds until the task's time limit. Resources that it does not use are omitted.
    """
    gpus = demand.nodes * demand.gpus
    taken: dict[str, float] = {
        JOBS: 1,
        "node": demand.nodes,
        "cpu": demand.nodes * demand.cpus,
        "mem": demand.nodes * demand.memory_bytes,
        GPU_TRES: gpus,
        GPU_SECONDS: gpus * demand.time_limit_s,
    }
    if demand.gpu_type is not None:
        taken[f"{GPU_TRES}:{demand.gpu_type}"] = gpus
    return {name: amount for name, amount in taken.items() if amount}


@dataclass(frozen=True, slots=True)
class _Need:
    """Amount that a task needs of one limited resource."""

    key: CapKey
    name: str
    amount: float


class LimitLedger:
    """Usage of all limits by running tasks, with the reservations of pending tasks."""

    def __init__(
        self,
        caps: Mapping[CapKey, Cap],
        nodes: Sequence[NodeCapacity],
        running: Iterable[RunningTask],
        now: float,
    ) -> None:
        self._caps = caps
        self._now = now
        self._types = {(node.name, gpu.index): gpu.type for node in nodes for gpu in node.gpus}
        self._used: dict[CapKey, dict[str, float]] = {
            key: {GPU_SECONDS: cap.gpu_s_used} for key, cap in caps.items()
        }
        self._running: dict[CapKey, list[tuple[float, Mapping[str, float]]]] = {
            key: [] for key in caps
        }
        self._reserved: dict[tuple[CapKey, str], tuple[float, float]] = {}
        """Time of each reservation (seconds since 1970), and how much of the limit remains from
        then on.
        """
        if caps:
            for task in running:
                self.add(task)

    def get_usage(self, key: CapKey) -> Mapping[str, float]:
        """Return how much of each limited resource is in use. ``GPU_SECONDS`` include those that
        running tasks will use until their time limits.
        """
        return self._used[key]

    def add(self, task: RunningTask) -> None:
        """Count the usage of a task that is running or starts now."""
        keys = [key for key in keys_of(task.owner) if key in self._caps]
        if not keys:
            return
        taken = dict(compute_charged_amounts(replace(task.demand, gpu_type=None)))
        gpus = task.demand.nodes * task.demand.gpus
        taken[GPU_SECONDS] = gpus * max(0.0, task.ends_at - self._now)
        kinds = Counter(
            self._types.get((grant.node, gpu)) for grant in task.grants for gpu in grant.gpus
        )
        taken |= {f"{GPU_TRES}:{kind}": count for kind, count in kinds.items() if kind is not None}
        for key in keys:
            used = self._used[key]
            self._running[key].append((task.ends_at, taken))
            for name, amount in taken.items():
                used[name] = used.get(name, 0) + amount
                reserved = self._reserved.get((key, name))
                if reserved is not None and task.ends_at > reserved[0]:
                    self._reserved[key, name] = reserved[0], reserved[1] - amount

    def check_start(
        self, task: WaitingTask, all_resources: FreeResources
    ) -> tuple[Demand, LimitBlock | None]:
        """Check whether the limits permit a pending task to start now.

        Return its demand, which excludes GPU types whose limits are exhausted, and the limit that
        prevents its start (None if the task may start).

        Args:
            task: the pending task.
            all_resources: resources of all nodes as if no task were running.
        """
        demand = task.demand
        if not any(key in self._caps for key in keys_of(task.owner)):
            return demand, None
        ends_at = self._now + demand.time_limit_s
        for need in self._list_needs(task):
            if (block := self._find_block(need, ends_at)) is not None:
                return demand, block
        blocks = [self._find_block(need, ends_at) for need in self._type_needs(task)]
        full = [block for block in blocks if block is not None]
        if not full:
            return demand, None
        avoid = frozenset(block.resource.partition(":")[2] for block in full)
        within = replace(demand, avoid=avoid)
        return within, full[0] if all_resources.fits(demand) and not all_resources.fits(
            within
        ) else None

    def reserve(
        self, task: WaitingTask, all_resources: FreeResources, at: float | None = None
    ) -> None:
        """Reserve the amounts that a task needs in its limits, so that later tasks do not use them.

        A task that could not run even if no other task were running gets no reservation.

        Args:
            task: the pending task.
            all_resources: resources of all nodes as if no task were running.
            at: start of the reservation in seconds since 1970; None: the earliest time at which the
                limits permit the task.
        """
        needs = list(self._list_needs(task))
        if any(need.amount > self._get_maximum(need) for need in needs):
            return
        types = list(self._type_needs(task))
        never = frozenset(
            need.name.partition(":")[2] for need in types if need.amount > self._get_maximum(need)
        )
        needs += [need for need in types if need.amount <= self._get_maximum(need)]
        if all((need.key, need.name) in self._reserved for need in needs):
            return  # earlier tasks come first
        if not all_resources.fits(replace(task.demand, avoid=never)):
            return
        start = self._find_earliest_start(needs) if at is None else at
        for need in needs:
            # GPU-seconds do not return with time, only if a task ends before its time limit.
            since = float("-inf") if need.name == GPU_SECONDS else start
            then = sum(
                taken.get(need.name, 0)
                for ends_at, taken in self._running[need.key]
                if ends_at > since
            )
            room = self._get_maximum(need) - then - need.amount
            self._reserved.setdefault((need.key, need.name), (since, room))

    def _list_needs(self, task: WaitingTask) -> Iterator[_Need]:
        for key in keys_of(task.owner):
            if (cap := self._caps.get(key)) is not None:
                for name, amount in compute_charged_amounts(task.demand).items():
                    if name in cap.maximum:
                        yield _Need(key, name, amount)

    def _type_needs(self, task: WaitingTask) -> Iterator[_Need]:
        """Yield the amounts that the task would need of each limited GPU type. Yield nothing if it
        requests a GPU type or no GPUs.
        """
        gpus = task.demand.nodes * task.demand.gpus
        if task.demand.gpu_type is not None or not gpus:
            return
        for key in keys_of(task.owner):
            if (cap := self._caps.get(key)) is not None:
                for name in cap.maximum:
                    if name.startswith(f"{GPU_TRES}:"):
                        yield _Need(key, name, gpus)

    def _get_maximum(self, need: _Need) -> float:
        cap = self._caps[need.key]
        return cap.maximum[need.name] - (cap.gpu_s_used if need.name == GPU_SECONDS else 0)

    def _find_block(self, need: _Need, ends_at: float) -> LimitBlock | None:
        used = self._used[need.key].get(need.name, 0)
        if used + need.amount > self._caps[need.key].maximum[need.name]:
            return LimitBlock(need.key, need.name)
        reserved = self._reserved.get((need.key, need.name))
        if reserved is not None and ends_at > reserved[0] and need.amount > reserved[1]:
            return LimitBlock(need.key, need.name, behind=True)
        return None

    def _find_earliest_start(self, needs: Sequence[_Need]) -> float:
        time = self._now
        for need in needs:
            free = self._caps[need.key].maximum[need.name] - self._used[need.key].get(need.name, 0)
            for ends_at, taken in sorted(self._running[need.key], key=lambda entry: entry[0]):
                if need.amount <= free:
                    break
                free += taken.get(need.name, 0)
                time = max(time, ends_at)
        return time
