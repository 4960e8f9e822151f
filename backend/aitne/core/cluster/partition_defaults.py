"""Memory, CPUs and time limit that Slurm gives jobs that do not request them, by the defaults of their
partition (https://slurm.schedmd.com/slurm.conf.html: DefaultTime, MaxTime, DefMemPerCPU,
DefMemPerNode, DefMemPerGPU, DefCpuPerGPU).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aitne.core.cluster.partition_check import find_named_partitions
from aitne.core.cluster.request_fit import select_capable_nodes
from aitne.core.models.cluster import Cluster, Node, Partition
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import Resources

NO_LIMIT_S = 10 * 365 * 86_400
"""Time limit in seconds that stands for no time limit."""


@dataclass(frozen=True, slots=True)
class QueueDefaults:
    """Defaults of the partition in which Slurm considers a job first."""

    partition: Partition | None
    """The partition; None: the scheduler has not reported it yet, or there is none."""
    nodes: tuple[Node, ...]
    """Nodes of the partition."""
    exclusive: bool
    """Whether the job gets all CPUs of its nodes."""
    longest_s: int | None = None
    """Longest time limit in seconds that the job's account and QOS permit; None: any."""

    @classmethod
    def from_options(
        cls, slurm: SlurmOptions, cluster: Cluster, longest_s: int | None = None
    ) -> QueueDefaults:
        """Return the defaults that apply to a job with these Slurm options, whose account and QOS
        permit ``longest_s``.
        """
        partition = next(iter(find_named_partitions(slurm, cluster)), None)
        names = frozenset(() if partition is None else partition.nodes)
        return cls(
            partition,
            tuple(node for node in cluster.nodes if node.name in names),
            slurm.exclusive or (partition is not None and partition.exclusive),
            longest_s,
        )

    @property
    def time_limit_s(self) -> int | None:
        """Return the time limit in seconds; None if the partition is unknown.

        In a partition without a DefaultTime, the job gets the longest time that the partition and
        its account permit.
        """
        if self.partition is None:
            return None
        if self.partition.default_time_s is not None:
            return self.partition.default_time_s
        return min(self.partition.max_time_s or NO_LIMIT_S, self.longest_s or NO_LIMIT_S)

    def cpus_per_node(self, resources: Resources) -> int:
        """Return the number of CPUs on each node that a job gets that does not get all of them.

        Of a job without a number of CPUs for each task, that may be more than the number of tasks.
        """
        per_gpu = None if self.partition is None else self.partition.default_cpus_per_gpu
        named = resources.tasks_per_node is None and resources.cpu > 1
        if per_gpu is None or named or resources.cpus_per_task is not None:
            return resources.cpu
        return max(resources.cpu, resources.gpu.count * per_gpu)

    def memory_bytes(self, resources: Resources) -> int:
        """Return the memory on each node in bytes; 0 if it is unknown.

        Args:
            resources: all other resources of the job.
        """
        partition = self.partition
        if partition is None:
            return 0
        if resources.gpu.count and partition.default_memory_per_gpu_bytes is not None:
            return resources.gpu.count * partition.default_memory_per_gpu_bytes
        if partition.default_memory_per_node_bytes is not None:
            return partition.default_memory_per_node_bytes
        if partition.default_memory_per_cpu_bytes is not None:
            return self._min_cpus_per_node(resources) * partition.default_memory_per_cpu_bytes
        return exclusive_memory_bytes(resources, self.nodes)

    def _min_cpus_per_node(self, resources: Resources) -> int:
        """Return the number of CPUs on each node that the job gets at least."""
        if not self.exclusive:
            return self.cpus_per_node(resources)
        nodes = _select_nodes_ignoring_memory(resources, self.nodes)
        return min((node.cpu_total for node in nodes), default=resources.cpu)


def exclusive_memory_bytes(resources: Resources, nodes: Sequence[Node]) -> int:
    """Return the memory in bytes that each node of the job has at least if the job gets the whole
    memory of nodes that have its other resources; 0 if there are no such nodes.
    """
    fitting = _select_nodes_ignoring_memory(resources, nodes)
    return min((node.memory_total_bytes for node in fitting), default=0)


def _select_nodes_ignoring_memory(resources: Resources, nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the nodes that have the other resources of the job."""
    return select_capable_nodes(resources.model_copy(update={"memory_bytes": 0}), nodes)
