"""The order of ranks on the nodes of a job, and its cost on the network.

Consecutive ranks exchange the most data, because in a ring each rank sends everything to the next
one. The cost of an order is the number of such pairs that share the busiest uplink, and the number
of pairs whose two nodes are on different leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from aitne_train.topology import device_mesh_order
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.hostlist import compress_hostlist
from aitne_train.topology.switch_tree import describe_unconnected
from aitne_train.topology.uplink_load import UNKNOWN, Cost, Network, find_fabric

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

    from aitne_train.topology.switch_tree import TopologyTree
    from aitne_train.topology.uplink_load import Edges

MOST_NAMED = 8
"""Maximum number of unknown nodes that a message names."""


@dataclass(frozen=True)
class RankOrder:
    """Order of the nodes of a job, in which ranks are numbered."""

    order: tuple[str, ...]
    """Names of the nodes in the chosen order."""
    given: Cost
    """Cost of the given order."""
    chosen: Cost
    """Cost of the chosen order, at most that of the given one."""
    unknown: tuple[str, ...] = ()
    """Nodes that the topology does not contain; they are treated as one more leaf."""
    fabrics: tuple[str, ...] = ()
    """Fabrics of the nodes, by their roots, if there are several, which no switch connects."""

    @property
    def is_changed(self) -> bool:
        """True if the chosen order is cheaper than the given one."""
        return self.chosen != self.given

    def describe(self) -> str:
        """Return the line that reports the order in the log, without a full stop."""
        given, chosen = self.given, self.chosen
        if self.is_changed:
            text = (
                f"rank order: {given.crossings} -> {chosen.crossings} crossings, "
                f"busiest uplink {given.busiest_uplink} -> {chosen.busiest_uplink}"
            )
        else:
            text = (
                f"rank order: the given order is already the best one that is known: {given.crossings} "
                f"crossings, busiest uplink {given.busiest_uplink}"
            )
        if self.fabrics:
            sentence = describe_unconnected(self.fabrics)
            text += f"; {sentence[:1].lower()}{sentence[1:]}"
        if not self.unknown:
            return text
        names = compress_hostlist(self.unknown[:MOST_NAMED])
        more = len(self.unknown) - MOST_NAMED
        return f"{text}; the topology does not contain {names}" + (
            f" and {more} more nodes" if more > 0 else ""
        )


def order_ranks(
    tree: TopologyTree,
    nodes: Sequence[str],
    *,
    mesh: Sequence[int] = (),
    ranks_per_node: int = 1,
) -> RankOrder:
    """Return the cheapest order of ``nodes`` that is found, or the given one if none is cheaper.

    Args:
        tree: topology of the cluster.
        nodes: names of the nodes in the given order.
        mesh: sizes of the dimensions of the mesh of ranks, innermost first; empty: one ring of all
            ranks, for which the order is optimal.
        ranks_per_node: number of ranks on each node, which matters for a mesh only.

    Raises:
        TopologyError: a node is named twice, or the number of ranks of the mesh is not
            ``len(nodes) * ranks_per_node``.
    """
    named: set[str] = set()
    for node in nodes:
        if node in named:
            raise TopologyError(f"the node {node} is named twice", "Name each node once.")
        named.add(node)
    edges = (
        device_mesh_order.count_edges(mesh, len(nodes), ranks_per_node)
        if mesh
        else build_ring(len(nodes))
    )
    network = Network(tree, nodes)
    given = network.compute_cost(range(len(nodes)), edges)
    candidates = [order_depth_first(network)]
    if mesh:
        sizes = device_mesh_order.list_group_sizes(mesh, ranks_per_node)
        candidates.append(device_mesh_order.group_nodes(network, candidates[0], sizes))
        cheapest = min(candidates, key=lambda order: network.compute_cost(order, edges))
        if len(nodes) <= device_mesh_order.MAX_SWAPPED:
            candidates.append(device_mesh_order.swap_nodes(network, cheapest, edges))
    costs = [network.compute_cost(order, edges) for order in candidates]
    chosen = min(costs)
    best = candidates[costs.index(chosen)] if chosen < given else range(len(nodes))
    return RankOrder(
        tuple(nodes[index] for index in best),
        given,
        min(chosen, given),
        tuple(tree.list_unknown(nodes)),
        _group_by_fabric(tree, network),
    )


def _group_by_fabric(tree: TopologyTree, network: Network) -> tuple[str, ...]:
    roots = {find_fabric(tree, leaf) for leaf in set(network.leaves) - {UNKNOWN}}
    return tuple(root for root in tree.fabrics if root in roots) if len(roots) > 1 else ()


def compute_ring_cost(tree: TopologyTree, nodes: Sequence[str]) -> Cost:
    """Return the cost of one ring over ``nodes`` in this order."""
    return Network(tree, nodes).compute_cost(range(len(nodes)), build_ring(len(nodes)))


def build_ring(size: int) -> Edges:
    """Return the edges of a ring of ``size`` nodes: each position sends to the next one, the last
    position to the first. Empty if ``size`` is less than 2."""
    if size < 2:
        return {}
    return {(position, (position + 1) % size): 1 for position in range(size)}


def order_depth_first(network: Network) -> list[int]:
    """Return the indices of the nodes in depth-first order over the tree. This order is optimal for
    a ring, because it enters and leaves every switch only once.

    The children of a switch are sorted by the first given node below them, and the nodes of a leaf
    keep the given order. The first node therefore stays first, and an order that is already
    depth-first does not change. Unknown nodes form one additional leaf below the root.
    """
    first: dict[str, int] = {}
    for index, path in enumerate(network.paths):
        for switch in path:
            first.setdefault(switch, index)
    return sorted(
        range(len(network.paths)),
        key=lambda index: ([first[switch] for switch in network.paths[index]], index),
    )
