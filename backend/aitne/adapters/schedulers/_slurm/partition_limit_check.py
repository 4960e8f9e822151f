"""Detection of jobs that no partition can ever run, with the limit that they exceed.

Slurm itself accepts a job that requests more time or nodes than its partition allows, and the job
stays pending forever (EnforcePartLimits=NO); if it rejects the job, its message names neither the
field nor the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import SchedulerRejected
from aitne.core.models.cluster import Cluster, Node, Partition
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.units import format_duration

_OVERRIDES = frozenset(
    {"PartitionTimeLimit", "PartitionMaxNodes", "PartitionMinNodes", "OverPartQOS"}
)
"""Flags of a QOS that override the limits of a partition."""


@dataclass(frozen=True)
class _Shape:
    """Resources of a node without its name. Many nodes share one shape, so each shape is checked
    only once.
    """

    cpus: int
    memory_bytes: int
    gpus: tuple[tuple[str | None, int], ...]
    gres: tuple[tuple[str, int], ...]

    @classmethod
    def from_node(cls, node: Node) -> _Shape:
        return cls(
            node.cpu_total,
            node.memory_total_bytes,
            tuple((gpu.type, gpu.total) for gpu in node.gpus),
            tuple((gres.name, gres.total) for gres in node.gres),
        )

    def gpu_count(self, kind: str | None) -> int:
        return sum(count for name, count in self.gpus if kind is None or name == kind)

    def gres_count(self, name: str) -> int:
        whole = ":" not in name
        return sum(
            count
            for gres_name, count in self.gres
            if gres_name == name or (whole and gres_name.partition(":")[0] == name)
        )


class ClusterLimits:
    """Limits of partitions and nodes at one point in time, against which any number of jobs can be
    checked.
    """

    def __init__(self, cluster: Cluster, qos_flags: Mapping[str, frozenset[str]] | None) -> None:
        """Prepare the checks. ``qos_flags`` are the flags of each QOS; None: they are unknown, so
        any QOS may override a limit.
        """
        self.nodes = frozenset(node.name for node in cluster.nodes)
        self._partitions = {partition.name: partition for partition in cluster.partitions}
        self._qos_flags = qos_flags
        shapes = {node.name: _Shape.from_node(node) for node in cluster.nodes}
        self._shapes = {
            partition.name: Counter(shapes[name] for name in partition.nodes if name in shapes)
            for partition in cluster.partitions
        }

    def get_max_time_limit_s(self, partition: str) -> int | None:
        """Return the maximum time limit of the partition, in seconds; None if it has none, or the
        partition is unknown.
        """
        record = self._partitions.get(partition)
        return None if record is None else record.max_time_s

    def _partitions_of(self, request: SubmitRequest) -> list[Partition] | None:
        """Return the partitions that the job may run in; None if the job names an unknown
        partition, or if there is no default.
        """
        if request.slurm.partition is None:
            return [p for p in self._partitions.values() if p.default] or None
        names = request.slurm.partition.split(",")
        if any(name not in self._partitions for name in names):
            return None
        return [self._partitions[name] for name in names]

    def find_rejection(self, request: SubmitRequest) -> SchedulerRejected | None:
        """Return an error with the reason why none of the job's partitions can ever run it; None if
        one can, or if only Slurm can decide.
        """
        partitions = self._partitions_of(request)
        if partitions is None:
            return None
        problems = [
            next(self._list_rejections(partition, request), None) for partition in partitions
        ]
        return None if None in problems else problems[0]

    def _list_rejections(
        self, partition: Partition, request: SubmitRequest
    ) -> Iterator[SchedulerRejected | None]:
        wants, shapes = request.resources, self._shapes[partition.name]
        label = f"partition {partition.name}"
        if not self._may_qos_override(request):
            limit = partition.max_time_s
            asked = not request.default_time_limit
            if asked and limit is not None and request.time_limit_s > limit:
                amount = format_duration(request.time_limit_s)
                yield _make_rejection(
                    "max_duration", amount, f"{label} allows {format_duration(limit)}"
                )
            if partition.max_nodes is not None and wants.nodes > partition.max_nodes:
                yield _make_rejection(
                    "resources.nodes", wants.nodes, f"{label} allows {partition.max_nodes}"
                )
        if not shapes:
            return
        if wants.nodes > shapes.total():
            yield _make_rejection("resources.nodes", wants.nodes, f"{label} has {shapes.total()}")
        largest_node = f"the largest node of {label} has"
        if wants.cpu > (cpus := max(shape.cpus for shape in shapes)):
            yield _make_rejection("resources.cpu", wants.cpu, f"{largest_node} {cpus}")
        if wants.memory_bytes > (memory := max(shape.memory_bytes for shape in shapes)):
            amount = describe_bytes(wants.memory_bytes, "up")
            largest = describe_bytes(memory, "down")
            yield _make_rejection("resources.memory", amount, f"{largest_node} {largest}")
        kind = wants.gpu.type
        if wants.gpu.count > (gpus := max(shape.gpu_count(kind) for shape in shapes)):
            amount = f"{wants.gpu.count} of type {kind}" if kind else str(wants.gpu.count)
            yield _make_rejection("resources.gpu", amount, f"{largest_node} {gpus}")
        for name, count in wants.gres.items():
            if count > (there := max(shape.gres_count(name) for shape in shapes)):
                yield _make_rejection(f"resources.gres.{name}", count, f"{largest_node} {there}")
        fitting = sum(
            number for shape, number in shapes.items() if _satisfies_request(shape, request)
        )
        if fitting < wants.nodes:
            yield SchedulerRejected(
                f"resources: {label} has {fitting} nodes with all of the requested resources; "
                f"{wants.nodes} are needed.",
                "resources",
            )

    def _may_qos_override(self, request: SubmitRequest) -> bool:
        """Return True if a QOS may override the partition's limits: the job's QOS, or any QOS if
        the job names none.
        """
        if self._qos_flags is None:
            return True
        if request.slurm.qos is not None:
            return bool(self._qos_flags.get(request.slurm.qos, frozenset()) & _OVERRIDES)
        return any(flags & _OVERRIDES for flags in self._qos_flags.values())


def _satisfies_request(shape: _Shape, request: SubmitRequest) -> bool:
    wants = request.resources
    return (
        wants.cpu <= shape.cpus
        and wants.memory_bytes <= shape.memory_bytes
        and wants.gpu.count <= shape.gpu_count(wants.gpu.type)
        and all(count <= shape.gres_count(name) for name, count in wants.gres.items())
    )


def _make_rejection(field: str, amount: object, limit: str) -> SchedulerRejected:
    return SchedulerRejected(f"{field}: {amount} is too much; {limit}.", field)
