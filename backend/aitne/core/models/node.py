"""The cluster as the scheduler sees it: nodes, partitions, and what a job may name."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from aitne.core.models.base import Frozen, UtcTime, deprecated_copy


class NodeState(StrEnum):
    """State of a node with regard to new jobs."""

    IDLE = "idle"
    MIXED = "mixed"
    """Partly in use."""
    ALLOCATED = "allocated"
    DRAINING = "draining"
    """Takes no new jobs, because an administrator drained it; a job still runs there."""
    DRAINED = "drained"
    """Takes no new jobs, because an administrator drained it; no job runs there any more."""
    DOWN = "down"
    RESERVED = "reserved"
    """Kept for a reservation or for maintenance."""
    POWERED_OFF = "powered_off"
    """Started when a job needs it."""
    UNKNOWN = "unknown"

    @property
    def usable(self) -> bool:
        """Return whether a waiting job may be given this node sooner or later without an
        administrator's help."""
        return self not in (NodeState.DRAINING, NodeState.DRAINED, NodeState.DOWN)


class GpuCount(Frozen):
    """Number of GPUs of one type on one node (a MIG profile is a type of its own)."""

    type: str | None
    """None: GPUs without a type."""
    total: int
    """Number of them on the node."""
    used: int


class GresCount(Frozen):
    """Number of units of a generic resource other than GPUs, such as ``shard``, on one node."""

    name: str
    total: int
    """Number of them on the node."""
    used: int


class Node(Frozen):
    """A node with its resources, and how much of them is allocated to jobs."""

    name: str
    cluster: str = "local"
    state: NodeState
    reason: str | None = None
    """Reason why it is down or drained, and who set that where the scheduler reports it."""
    cpu_total: int
    """Number of its CPUs."""
    cpu_used: int
    """Number of CPUs that are allocated to jobs."""
    memory_total_bytes: int
    """Memory that jobs may be given."""
    memory_used_bytes: int
    """Allocated, not measured."""
    gpus: tuple[GpuCount, ...] = ()
    gres: tuple[GresCount, ...] = ()
    """Other generic resources."""
    features: tuple[str, ...] = ()
    """Words by which jobs ask for it."""
    partitions: tuple[str, ...] = ()
    """The partitions it belongs to."""
    address: str | None = None
    """Its name or number on the network, if that is not ``name``."""
    scheduler_state: str | None = None
    """The scheduler's own word, such as ``IDLE+DRAIN``."""
    seen_at: UtcTime


class Partition(Frozen):
    """A queue with its own limits (https://slurm.schedmd.com/slurm.conf.html, PARTITION)."""

    name: str
    up: bool = True
    default: bool = False
    nodes: tuple[str, ...] = ()
    max_time_s: int | None = None
    default_time_s: int | None = None
    max_nodes: int | None = None
    min_nodes: int = 1
    allow_accounts: tuple[str, ...] | None = None
    """None: all."""
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] | None = None
    allow_groups: tuple[str, ...] | None = None
    exclusive: bool = False


class Reservation(Frozen):
    """Reservation of nodes for some accounts or users during a period."""

    name: str
    starts_at: UtcTime | None = None
    ends_at: UtcTime | None = None
    nodes: tuple[str, ...] = ()
    """The names of its nodes."""
    accounts: tuple[str, ...] = ()
    """Accounts it is kept for."""
    users: tuple[str, ...] = ()
    """Unix accounts it is kept for."""


class Holder(StrEnum):
    """Mechanism by which a scheduler enforces the requested amounts on jobs."""

    CGROUP = "cgroup"
    """A control group: nothing gets past it."""
    SAMPLING = "sampling"
    """Periodic measurements: jobs that have taken more are ended."""
    BINDING = "binding"
    """Binding of programs to their CPUs, which they can undo."""
    NOBODY = "nobody"


class Cluster(Frozen):
    """State of the whole cluster at one time. Tuples are empty where a scheduler has no such
    objects.
    """

    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    qos: tuple[str, ...] = ()
    """Names; empty when accounting is off."""
    reservations: tuple[Reservation, ...] = ()
    max_array_size: int | None = None
    """Slurm's MaxArraySize: the highest task index is one less."""
    memory_held_by: Holder = Holder.NOBODY
    cpus_held_by: Holder = Holder.NOBODY
    agent_cgroups: tuple[str, ...] | None = None
    """Controllers with which the agents of jobs can enforce limits by cgroups of their own
    (``memory``, ``cpu``). None: unknown before the agent tries."""
    seen_at: UtcTime | None = None


class SchedulerStatus(Frozen):
    """Availability of the scheduler. While it does not answer, the states of jobs may be out of
    date.
    """

    responding: bool
    """Whether it answered the last query."""
    since: UtcTime
    """Time since which it answers, or at which it answered last."""
    message: str | None = None
    """Its own message, or the error of the query."""
    answering: ClassVar = deprecated_copy("responding", bool)
