"""Topology of the cluster, merged from several sources."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from aitne.core.models.cluster import Cluster, Node
from aitne.core.models.cluster_topology import (
    ClusterTopology,
    NicView,
    NumaView,
    StoredTopology,
    TopologyNode,
    TopologyOrigin,
    TopologySourceView,
    TopologySwitch,
)
from aitne.core.models.user import Actor
from aitne.core.settings import TopologySettings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.platform.ttl_cache import TtlCache
from aitne.store import Store
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import NodeTopology, format_cpu_list, merge_node
from aitne_train.topology.slurm import format_conf
from aitne_train.topology.switch_tree import Switch, TopologyTree, merge_trees
from aitne_train.topology.topology_json import part_from_record
from aitne_train.topology.topology_parts import Topology, TopologyPart

FRESH_S = 1.0
"""Seconds for which the rows of the store are not compared again."""
FROM_SCHEDULER = "scontrol show topology"
"""Name of the scheduler as a source; the sources of edges name it, too."""
PYTHON_CONFIRMED = "python_confirmed"
"""Key in what is stored of a node: True if jobs of two users have reported its version of Python."""


@dataclass(frozen=True, slots=True)
class KnownTopology:
    """Merged topology of the cluster, with its sources."""

    topology: Topology
    sources: tuple[TopologySourceView, ...] = ()
    """Sources of the network, in the order in which they are used."""
    network_from: frozenset[TopologyOrigin] = frozenset()
    """Origins of the switches; empty: no source describes the network."""


@dataclass
class _Rows:
    """Copy of the topology rows in the database, up to ``version``."""

    version: int = 0
    stored: dict[tuple[TopologyOrigin, str], StoredTopology] = field(default_factory=dict)
    parts: dict[tuple[TopologyOrigin, str], TopologyPart] = field(default_factory=dict)


class ClusterTopologies:
    """Service that merges the topology of the cluster from its sources."""

    def __init__(
        self,
        store: Store,
        cluster: ClusterService,
        settings: TopologySettings,
        *,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._order = settings.sources
        self._rows = _Rows()
        self._known = KnownTopology(Topology())
        self._fresh = TtlCache(self._read_known_topology, fresh_s)

    async def get_topology(self) -> Topology:
        """Return the topology of the cluster. It is the same object until a source changes."""
        return (await self._fresh.get()).topology

    async def get_known_topology(self) -> KnownTopology:
        """Return the topology of the cluster with its sources. It is the same object until a source
        changes.
        """
        return await self._fresh.get()

    async def find_reported_node(self, node: str) -> StoredTopology | None:
        """Return the description of a node that jobs have reported; None if no job has reported
        one.
        """
        await self._fresh.get()
        return self._rows.stored.get((TopologyOrigin.NODES, node))

    async def get_reported_python_versions(self, owner: str) -> Mapping[str, str]:
        """Return the version of Python on each node, by name. Included are versions that a job of
        ``owner`` or jobs of two users have reported.
        """
        await self._fresh.get()
        return {
            name: content["python"]
            for (origin, name), row in self._rows.stored.items()
            if origin is TopologyOrigin.NODES
            and (content := row.content) is not None
            and (content["owner"] == owner or content.get(PYTHON_CONFIRMED, False))
        }

    async def _read_known_topology(self) -> KnownTopology:
        rows = await self._store.list_topologies_after(self._rows.version)
        if rows:
            self._known = await asyncio.to_thread(self._merge_rows, rows)
        return self._known

    def _merge_rows(self, rows: Sequence[StoredTopology]) -> KnownTopology:
        for row in rows:
            key = (row.origin, row.name)
            self._rows.stored[key] = row
            self._rows.parts.pop(key, None)
            if row.content is not None:
                self._rows.parts[key] = part_from_record(row.content)
            self._rows.version = row.version
        return merge_topologies(self._rows.stored, self._rows.parts, self._order)

    async def format_topology_conf(self) -> str | None:
        """Return the switches in the format of ``topology.conf``, for jobs. None: no source
        describes the network, or only the scheduler does, which jobs can query themselves.
        """
        known = await self.get_known_topology()
        tree = known.topology.tree
        if tree is None or not known.network_from - {TopologyOrigin.SCHEDULER}:
            return None
        return format_conf(tree)

    async def get_visible_topology(self, actor: Actor) -> ClusterTopology:
        """Return the switches and nodes of the cluster for ``actor``. Nodes that run jobs of the
        actor are marked.
        """
        known = await self.get_known_topology()
        cluster = (await self._cluster.get_snapshot()).cluster
        jobs = await self._store.list_live_jobs(owner=actor.name)
        mine = {name for job in jobs for name in job.nodes}
        return await asyncio.to_thread(_make_cluster_topology, known, cluster, mine)


def merge_topologies(
    stored: Mapping[tuple[TopologyOrigin, str], StoredTopology],
    parts: Mapping[tuple[TopologyOrigin, str], TopologyPart],
    order: Sequence[TopologyOrigin],
) -> KnownTopology:
    """Merge the descriptions of all sources into one topology.

    A source that contradicts an earlier one is omitted and reported as a problem. Descriptions of
    nodes that jobs report are not trusted: they only add to those of the other sources.
    Configuration files about nodes are merged last, because their content was not detected on the
    node.

    Args:
        stored: database rows by origin and name.
        parts: parsed content of these rows; rows without content are absent.
        order: origins to use, in order of precedence. Nodes always come last; within an origin,
            sources are sorted by name.
    """
    keys = sorted(
        (key for key in stored if key[0] in order),
        key=lambda key: (key[0] is TopologyOrigin.NODES, order.index(key[0]), key[1]),
    )
    used: list[Sequence[Switch]] = []
    tree: TopologyTree | None = None
    origins: set[TopologyOrigin] = set()
    nodes: dict[str, NodeTopology] = {}
    configured: list[NodeTopology] = []
    views: list[TopologySourceView] = []
    for key in keys:
        origin, name = key
        row, part = stored[key], parts.get(key)
        problem = row.problem
        try:
            if part is not None and part.switches:
                tree = merge_trees([*used, part.switches])
                used.append(part.switches)
                origins.add(origin)
            for node in () if part is None else part.nodes:
                if node.is_configured:
                    configured.append(node)
                    continue
                _add_node_topology(nodes, node, keeps_links=origin is TopologyOrigin.NODES)
        except TopologyError as error:
            problem = str(error)
        if problem is not None or (part is not None and origin is not TopologyOrigin.NODES):
            shown = FROM_SCHEDULER if origin is TopologyOrigin.SCHEDULER else name
            views.append(
                TopologySourceView(name=shown, origin=origin, read_at=row.read_at, problem=problem)
            )
    for node in configured:
        _add_node_topology(nodes, node, keeps_links=False)
    return KnownTopology(Topology(tree, nodes), tuple(views), frozenset(origins))


def _add_node_topology(
    nodes: dict[str, NodeTopology], node: NodeTopology, *, keeps_links: bool
) -> None:
    """Merge the description of a node by one source into ``nodes``.

    Args:
        keeps_links: whether links that earlier sources describe take precedence.

    Raises:
        TopologyError: the descriptions contradict each other.
    """
    if node.name is None:
        return
    known = nodes.get(node.name)
    if known is None:
        nodes[node.name] = node
        return
    merged_description = merge_node([known, node])
    if keeps_links:
        links = {**merged_description.links, **known.links}
        merged_description = replace(merged_description, links=links)
    nodes[node.name] = merged_description


def _make_cluster_topology(
    known: KnownTopology, cluster: Cluster, mine: set[str]
) -> ClusterTopology:
    tree = known.topology.tree
    names = [node.name for node in cluster.nodes]
    return ClusterTopology(
        switches=() if tree is None else tuple(_make_topology_switches(tree)),
        nodes=tuple(
            _make_topology_node(node, tree, known.topology.nodes.get(node.name), node.name in mine)
            for node in cluster.nodes
        ),
        sources=known.sources,
        unknown_nodes=() if tree is None else tuple(tree.list_unknown(names)),
    )


def _make_topology_switches(tree: TopologyTree) -> Iterator[TopologySwitch]:
    for name, switch in tree.switches.items():
        yield TopologySwitch(
            name=name,
            parent=tree.parents.get(name),
            kind="block" if switch.is_block else "switch",
            source=str(switch.source),
        )


def _make_topology_node(
    node: Node, tree: TopologyTree | None, part: NodeTopology | None, mine: bool
) -> TopologyNode:
    switch = None if tree is None else tree.find_leaf(node.name)
    gpus = sum(gpu.total for gpu in node.gpus)
    free = sum(max(0, gpu.total - gpu.used) for gpu in node.gpus) if node.state.is_usable else 0
    return TopologyNode(
        name=node.name,
        switch=switch,
        source=None if tree is None or switch is None else str(tree.switches[switch].source),
        state=node.state,
        gpus=gpus,
        free_gpus=free,
        mine=mine,
        used=node.cpu_used > 0 or any(gpu.used for gpu in node.gpus),
        numa_nodes=None if part is None else tuple(_numa_nodes(part)),
        gpu_links=None if part is None else _make_link_matrix(part),
        nics=None
        if part is None
        else tuple(NicView(name=nic.name, numa=nic.numa) for nic in part.nics),
    )


def _numa_nodes(part: NodeTopology) -> Iterator[NumaView]:
    for numa in part.numa_nodes:
        near = [index for index, gpu in enumerate(part.gpus) if gpu.numa == numa.index]
        yield NumaView(index=numa.index, cpus=format_cpu_list(numa.cpus), gpus=tuple(near))


def _make_link_matrix(part: NodeTopology) -> tuple[tuple[str | None, ...], ...]:
    names = [gpu.name for gpu in part.gpus]
    return tuple(tuple(part.links.get((one, other)) for other in names) for one in names)
