"""Resources of nodes, and how much of them tasks request or are allocated. Pure: it uses no clock
and no processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aitne.core.byte_size_format import describe_bytes
from aitne.core.placement.leaf_selection import count_fewest_leaves, select_nearest_nodes
from aitne_train.topology.switch_tree import TopologyTree

Owner = tuple[str, str]
"""Project and user of a task. The task must fit within the project's limits and the user's limits.
"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPU of a node."""

    index: int
    """CUDA index."""
    type: str | None = None
    """Type such as ``a100``; None: unknown."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """Resources of one node."""

    name: str
    """Name of the node."""
    cpus: int
    """Number of CPUs."""
    memory_bytes: int
    """Memory in bytes."""
    gpus: tuple[Gpu, ...] = ()
    """GPUs of the node."""
    features: tuple[str, ...] = ()
    """Features, as in Slurm's ``Features``."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Resources that a job requests."""

    nodes: int
    """Number of nodes."""
    cpus: int
    """Number of CPUs on each node."""
    memory_bytes: int
    """Memory on each node, in bytes."""
    gpus: int = 0
    """Number of GPUs on each node."""
    gpu_type: str | None = None
    """Type of the GPUs; None: any."""
    time_limit_s: float = 3600.0
    """Time limit in seconds."""
    avoid: frozenset[str] = frozenset()
    """GPU types that the job must not be allocated, because a limit has too few GPUs of that type
    left.
    """
    required: tuple[str, ...] = ()
    """Nodes that the job must run on."""
    exclude: frozenset[str] = frozenset()
    """Nodes that the job must not run on."""
    max_leaves: int | None = None
    """Maximum number of leaf switches to which its nodes are connected; None: any."""
    tree: TopologyTree | None = None
    """Switches of the network; None: unknown, and all nodes count as connected to one leaf
    switch."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Resources allocated to a job on one node."""

    node: str
    """Name of the node."""
    gpus: tuple[int, ...] = ()
    """CUDA indices of the allocated GPUs."""


@dataclass(frozen=True, slots=True)
class RunningTask:
    """Job or array task that has allocated resources."""

    demand: Demand
    """Requested resources."""
    grants: tuple[Grant, ...]
    """Allocated resources, by node."""
    ends_at: float
    """Time at which it ends at the latest, in seconds since 1970."""
    group: int = 0
    """Number of the array to which the task belongs; 0: none."""
    owner: Owner = ("", "")


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """Job or array task that is pending only because of resources."""

    key: int
    """Number of the task, by which results refer to it."""
    demand: Demand
    """Requested resources."""
    group: int = 0
    """Number of the array to which the task belongs; 0: none."""
    throttle: int | None = None
    """Maximum number of tasks of its array that run at once; None: no maximum."""
    owner: Owner = ("", "")


class FreeResources:
    """Free CPUs, memory and GPUs of every node, with methods to allocate and release them."""

    def __init__(self, nodes: Iterable[NodeCapacity]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.cpus = {name: node.cpus for name, node in self.nodes.items()}
        self.memory = {name: node.memory_bytes for name, node in self.nodes.items()}
        self.gpus = {name: list(node.gpus) for name, node in self.nodes.items()}

    def copy(self) -> FreeResources:
        """Return an independent copy of the free resources."""
        twin = FreeResources(())
        twin.nodes = self.nodes
        twin.cpus = dict(self.cpus)
        twin.memory = dict(self.memory)
        twin.gpus = {name: list(gpus) for name, gpus in self.gpus.items()}
        return twin

    def allocate(self, demand: Demand, grants: Iterable[Grant]) -> None:
        """Subtract the resources of an allocation. Nodes that the configuration no longer contains
        are skipped.
        """
        for grant in grants:
            if grant.node in self.nodes:
                self.cpus[grant.node] -= demand.cpus
                self.memory[grant.node] -= demand.memory_bytes
                self.gpus[grant.node] = [
                    gpu for gpu in self.gpus[grant.node] if gpu.index not in grant.gpus
                ]

    def release(self, demand: Demand, grants: Iterable[Grant]) -> None:
        """Add the resources of an allocation that has ended; the inverse of ``allocate``."""
        for grant in grants:
            if grant.node in self.nodes:
                self.cpus[grant.node] += demand.cpus
                self.memory[grant.node] += demand.memory_bytes
                back = [gpu for gpu in self.nodes[grant.node].gpus if gpu.index in grant.gpus]
                self.gpus[grant.node] = sorted(
                    {*self.gpus[grant.node], *back}, key=lambda gpu: gpu.index
                )

    def choose_grants(self, demand: Demand) -> tuple[Grant, ...] | None:
        """Choose nodes and GPUs for the demand; None if too few nodes have enough free resources.

        Several nodes are those with the least traffic between leaves, if the topology is known.
        Otherwise nodes with the fewest free GPUs are preferred, then those with the fewest other free
        resources, so that free GPUs remain together on few nodes.
        """
        if not self.fits(demand):
            return None
        fitting = [name for name in self.nodes if self._fits_on_node(name, demand)]
        order = {name: position for position, name in enumerate(self.nodes)}
        names: Sequence[str] | None
        if demand.tree is not None and demand.nodes > 1:
            names = self._choose_by_topology(demand.tree, fitting, demand)
            if names is None:
                return None
        else:
            fitting.sort(
                key=lambda name: (
                    name not in demand.required,
                    len(self.gpus[name]),
                    self.cpus[name],
                    order[name],
                )
            )
            names = fitting[: demand.nodes]
        chosen = sorted(names, key=order.__getitem__)
        return tuple(
            Grant(
                name,
                tuple(gpu.index for gpu in self._list_usable_gpus(name, demand)[: demand.gpus]),
            )
            for name in chosen
        )

    def fits(self, demand: Demand) -> bool:
        """Return True if enough nodes have enough free resources for the demand, among them those
        that it requires, on no more leaves than it permits.
        """
        fitting = [name for name in self.nodes if self._fits_on_node(name, demand)]
        if len(fitting) < demand.nodes or not set(demand.required) <= set(fitting):
            return False
        if demand.tree is None:
            return True
        if demand.nodes > 1 and len(demand.tree.fabrics) > 1:
            return self._choose_by_topology(demand.tree, fitting, demand) is not None
        if demand.max_leaves is None:
            return True
        fewest = count_fewest_leaves(demand.tree, fitting, demand.nodes, demand.required)
        return fewest is not None and fewest <= demand.max_leaves

    def _choose_by_topology(
        self, tree: TopologyTree, fitting: Sequence[str], demand: Demand
    ) -> Sequence[str] | None:
        """Return nodes for the demand among those in ``fitting``, by the topology; None if it permits
        none."""
        # The tree has the nodes that could run a part of the job.
        busy = [
            name
            for name in self.nodes
            if name not in demand.exclude and tree.find_node_name(name) is not None
        ]
        return select_nearest_nodes(
            tree, fitting, demand.nodes, demand.required, demand.max_leaves, busy
        )

    def _fits_on_node(self, name: str, demand: Demand) -> bool:
        return (
            name not in demand.exclude
            and self.cpus[name] >= demand.cpus
            and self.memory[name] >= demand.memory_bytes
            and (demand.gpus == 0 or len(self._list_usable_gpus(name, demand)) >= demand.gpus)
        )

    def _list_usable_gpus(self, name: str, demand: Demand) -> list[Gpu]:
        if demand.gpu_type is None:
            return [gpu for gpu in self.gpus[name] if gpu.type not in demand.avoid]
        return [gpu for gpu in self.gpus[name] if gpu.type == demand.gpu_type]

    def explain_shortage(self, demand: Demand) -> str:
        """Return why ``demand`` does not fit now, as text with the requested and free amounts."""
        busy = [name for name in demand.required if not self._fits_on_node(name, demand)]
        if busy:
            return f"Waits for {describe_demand(demand)} on {', '.join(busy)}"
        if demand.max_leaves is not None and self.fits(replace(demand, max_leaves=None)):
            leaf = "one leaf" if demand.max_leaves == 1 else f"{demand.max_leaves} leaves"
            return f"Waits for {demand.nodes} nodes with {describe_demand(demand)} each on {leaf}"
        if demand.nodes > 1:
            able = sum(self._fits_on_node(name, demand) for name in self.nodes)
            if able >= demand.nodes:
                return f"Waits for {demand.nodes} nodes with {describe_demand(demand)} each on one fabric"
            return (
                f"Waits for {demand.nodes} nodes with {describe_demand(demand)} each: "
                f"{able} of {len(self.nodes)} nodes have that free"
            )
        kind = "GPUs" if demand.gpu_type is None else f"{demand.gpu_type} GPUs"
        for need, unit, free in (
            (
                demand.gpus,
                kind,
                {name: len(self._list_usable_gpus(name, demand)) for name in self.nodes},
            ),
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
                f"Waits for {describe_bytes(demand.memory_bytes, 'up')} of memory on one node: "
                f"{describe_bytes(max_bytes, 'down')} are free"
            )
        return f"Waits for a node on which {describe_demand(demand)} are free together"


def describe_demand(demand: Demand) -> str:
    """Describe the resources that the demand requests on each node, such as ``2 CPUs, 4 GiB and 1
    a100 GPU``.
    """
    parts = [f"{demand.cpus} CPU{'s' * (demand.cpus > 1)}", describe_bytes(demand.memory_bytes)]
    if demand.gpus:
        kind = "" if demand.gpu_type is None else f"{demand.gpu_type} "
        parts.append(f"{demand.gpus} {kind}GPU{'s' * (demand.gpus > 1)}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]])
