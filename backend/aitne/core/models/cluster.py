"""State of the cluster according to the scheduler: nodes, partitions, and names that jobs may
use.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime, deprecated_copy


class NodeState(StrEnum):
    """State of a node with regard to new jobs."""

    IDLE = "idle"
    MIXED = "mixed"
    """Some of its resources are allocated."""
    ALLOCATED = "allocated"
    DRAINING = "draining"
    """An administrator drained it, so it starts no new jobs; jobs are still running on it."""
    DRAINED = "drained"
    """An administrator drained it, so it starts no new jobs; no job is running on it any more."""
    DOWN = "down"
    RESERVED = "reserved"
    """Assigned to a reservation or to maintenance."""
    POWERED_OFF = "powered_off"
    """Switched off until a job needs it."""
    UNKNOWN = "unknown"

    @property
    def is_usable(self) -> bool:
        """Return whether pending jobs can be started on the node sooner or later without an
        administrator's action.
        """
        return self not in (NodeState.DRAINING, NodeState.DRAINED, NodeState.DOWN)


class GpuCount(Frozen):
    """Number of GPUs of one type on one node (a MIG profile is a type of its own)."""

    type: str | None
    """GPU type; None means GPUs without a type."""
    total: int
    """Number of these GPUs on the node."""
    used: int
    """Number of these GPUs that are allocated to jobs."""


class GresCount(Frozen):
    """Number of units of a generic resource other than GPUs, such as ``shard``, on one node."""

    name: str
    total: int
    """Number of units on the node."""
    used: int
    """Number of units that are allocated to jobs."""


class Node(Frozen):
    """A node with its resources, and how much of them is allocated to jobs."""

    name: str
    cluster: str = "local"
    state: NodeState
    reason: str | None = None
    """Reason why the node is down or drained, with the account that set it if the scheduler reports
    that.
    """
    cpu_total: int
    """Number of CPUs of the node."""
    cpu_used: int
    """Number of CPUs that are allocated to jobs."""
    memory_total_bytes: int
    """Memory in bytes that can be allocated to jobs."""
    memory_used_bytes: int
    """Memory in bytes that is allocated to jobs, used or not."""
    gpus: tuple[GpuCount, ...] = ()
    gres: tuple[GresCount, ...] = ()
    """Generic resources (GRES) of the node other than GPUs."""
    features: tuple[str, ...] = ()
    """Features of the node, which jobs can name as constraints."""
    partitions: tuple[str, ...] = ()
    """Names of the partitions that contain the node."""
    power_w: int | None = Field(
        None,
        description="Power of the node by the scheduler's energy plugin, in steps of 10 W; null: not "
        "measured.",
    )
    cpu_power_w: int | None = Field(
        None,
        description="Power of its CPUs and memory (RAPL) as the agent of a running job last "
        "reported it; null: not measured.",
    )
    address: str | None = None
    """Host name or IP address of the node, if it is not ``name``."""
    scheduler_state: str | None = None
    """State in the scheduler's own terms, such as ``IDLE+DRAIN``."""
    seen_at: UtcTime


class Partition(Frozen):
    """A queue with its own limits (https://slurm.schedmd.com/slurm.conf.html, PARTITION)."""

    name: str
    """Name of the partition."""
    up: bool = True
    """Whether jobs can start in the partition."""
    accepts_jobs: bool = True
    """Whether the partition takes new jobs; one that is not up may still take them, and they wait."""
    default: bool = False
    """Whether jobs that do not name a partition use this one."""
    nodes: tuple[str, ...] = ()
    """Names of its nodes."""
    max_time_s: int | None = None
    """Maximum time limit of a job in seconds; None: no maximum."""
    default_time_s: int | None = None
    """Time limit in seconds of jobs that do not set one; None: that is ``max_time_s``."""
    default_memory_per_node_bytes: int | None = None
    """Memory on each node of jobs that do not request any; None: it is set per CPU, or the job gets
    all memory of the node.
    """
    default_memory_per_cpu_bytes: int | None = None
    """Memory for each CPU of jobs that do not request any; None: it is set per node, or not at all."""
    default_memory_per_gpu_bytes: int | None = None
    """Memory for each GPU of jobs with GPUs that do not request memory; None: GPUs have no effect."""
    default_cpus_per_gpu: int | None = None
    """CPUs for each GPU of jobs that request no number of CPUs; None: GPUs have no effect."""
    max_nodes: int | None = None
    """Maximum number of nodes of a job; None: no maximum."""
    min_nodes: int = 1
    """Minimum number of nodes of a job."""
    allow_accounts: tuple[str, ...] | None = None
    """Accounts that may use the partition; None means all."""
    deny_accounts: tuple[str, ...] = ()
    """Accounts that may not use the partition."""
    allow_qos: tuple[str, ...] | None = None
    """QOS that jobs may use in the partition; None: all."""
    allow_groups: tuple[str, ...] | None = None
    """Unix groups whose members may use the partition; None: all."""
    exclusive: bool = False
    """Whether each job gets whole nodes."""


class Reservation(Frozen):
    """Reservation of nodes for some accounts or users during a period."""

    name: str
    starts_at: UtcTime | None = None
    ends_at: UtcTime | None = None
    nodes: tuple[str, ...] = ()
    """Names of the reserved nodes."""
    accounts: tuple[str, ...] = ()
    """Slurm accounts that may use the reservation."""
    users: tuple[str, ...] = ()
    """Unix accounts that may use the reservation."""


class Holder(StrEnum):
    """Mechanism by which a scheduler enforces a limit of a job's memory or CPUs."""

    CGROUP = "cgroup"
    """Control group of the kernel, which processes cannot evade."""
    SAMPLING = "sampling"
    """Periodic measurement: a job that uses more than its limit is ended."""
    BINDING = "binding"
    """Binding of processes to CPUs, which the processes can undo."""
    NOBODY = "nobody"


class Cluster(Frozen):
    """State of the whole cluster at one time. A tuple is empty if the scheduler has no such
    objects.
    """

    nodes: tuple[Node, ...] = ()
    partitions: tuple[Partition, ...] = ()
    qos: tuple[str, ...] = ()
    """Names of the QOS; empty if the scheduler has no accounting."""
    reservations: tuple[Reservation, ...] = ()
    max_array_size: int | None = None
    """Slurm's MaxArraySize; the highest permitted array index is one less."""
    max_jobs: int | None = None
    """Slurm's MaxJobCount: maximum number of jobs that it holds at a time."""
    max_switch_wait_s: int | None = None
    """Longest time for which a job waits for a number of leaves; None: without a limit."""
    memory_held_by: Holder = Holder.NOBODY
    """Mechanism that enforces memory limits."""
    cpus_held_by: Holder = Holder.NOBODY
    """Mechanism that enforces CPU limits."""
    started_at: UtcTime | None = None
    """Start of the scheduler with its current configuration; None: unknown."""
    agent_cgroups: tuple[str, ...] | None = None
    """Cgroup controllers (``memory``, ``cpu``) with which agents can enforce limits. None: unknown
    until an agent tries.
    """
    seen_at: UtcTime | None = None
    """Time at which the scheduler reported this state; None: it has not reported yet."""


class SchedulerStatus(Frozen):
    """Availability of the scheduler. While it does not answer, the stored states of jobs may be
    outdated.
    """

    responding: bool
    """Whether the scheduler answered the last query."""
    since: UtcTime
    """Start of the time in which the scheduler has answered without interruption; if it does not
    answer now, the time of its last answer.
    """
    message: str | None = None
    """Error of the last query or, if the scheduler answers, the reason why it accepts no jobs at the
    moment; None if there is none.
    """
    answering: ClassVar = deprecated_copy("responding", bool)
