"""The order of ranks on the nodes of a job, and its cost on the network.

Ranks that follow each other exchange most data: a ring sends everything to the next rank. The cost
counts how often such a pair is on two leaves, and how many pairs share the busiest uplink.
"""

from __future__ import annotations

from dataclasses import dataclass

from aitne.topology import mesh as meshes
from aitne.topology.errors import TopologyError
from aitne.topology.hostlist import compress_hostlist
from aitne.topology.network import Cost, Network

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

    from aitne.topology.network import Edges
    from aitne.topology.tree import TopologyTree

MOST_NAMED = 8
"""Maximum number of unknown nodes that a message names."""


@dataclass(frozen=True)
class RankOrder:
    """An order of nodes in which ranks are numbered, with the costs of the given and of the chosen
    order."""

    order: tuple[str, ...]
    given: Cost
    chosen: Cost
    unknown: tuple[str, ...] = ()
    """Nodes that the topology does not contain; they are treated as one more leaf."""

    @property
    def changed(self) -> bool:
        """True if the chosen order is cheaper than the given one."""
        return self.chosen != self.given

    def sentence(self) -> str:
        """Return the line of a log that reports the order."""
        given, chosen = self.given, self.chosen
        if self.changed:
            text = (
                f"rank order: {given.crossings} -> {chosen.crossings} crossings, "
                f"busiest uplink {given.busiest_uplink} -> {chosen.busiest_uplink}"
            )
        else:
            text = (
                f"rank order: the given order is already the best one that is known: {given.crossings} "
                f"crossings, busiest uplink {given.busiest_uplink}"
            )
        if not self.unknown:
            return text
        names = compress_hostlist(self.unknown[:MOST_NAMED])
        more = len(self.unknown) - MOST_NAMED
        return f"{text}; the topology does not contain {names}" + (
            f" and {more} more nodes" if more > 0 else ""
        )


def rank_order(
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
        TopologyError: a node is named twice, or the mesh does not have as many ranks as the nodes.
    """
    named: set[str] = set()
    for node in nodes:
        if node in named:
            raise TopologyError(f"the node {node} is named twice", "Name each node once.")
        named.add(node)
    edges = meshes.edges(mesh, len(nodes), ranks_per_node) if mesh else ring(len(nodes))
    network = Network(tree, nodes)
    given = network.cost(range(len(nodes)), edges)
    candidates = [depth_first(network)]
    if mesh:
        sizes = meshes.group_sizes(mesh, ranks_per_node)
        candidates.append(meshes.grouped(network, candidates[0], sizes))
        cheapest = min(candidates, key=lambda order: network.cost(order, edges))
        if len(nodes) <= meshes.MAX_SWAPPED:
            candidates.append(meshes.swapped(network, cheapest, edges))
    costs = [network.cost(order, edges) for order in candidates]
    chosen = min(costs)
    best = candidates[costs.index(chosen)] if chosen < given else range(len(nodes))
    return RankOrder(
        tuple(nodes[index] for index in best),
        given,
        min(chosen, given),
        tuple(tree.unknown(nodes)),
    )


def cost(tree: TopologyTree, nodes: Sequence[str]) -> Cost:
    """Return the cost of one ring over ``nodes`` in this order."""
    return Network(tree, nodes).cost(range(len(nodes)), ring(len(nodes)))


def ring(size: int) -> Edges:
    """Return the pairs of positions that exchange data in one ring of ``size`` nodes."""
    if size < 2:
        return {}
    return {(position, (position + 1) % size): 1 for position in range(size)}


def depth_first(network: Network) -> list[int]:
    """Return the indices of the nodes in depth-first order over the tree, the optimum for one ring:
    every switch is entered and left once.

    Sort order: at each switch, the switches below it in the order in which the given nodes first
    reach them; on a leaf, the nodes in the given order. So the first node stays the first, and nodes
    that are together already stay as they are. Unknown nodes are one more leaf below the root.
    """
    first: dict[str, int] = {}
    for index, path in enumerate(network.paths):
        for switch in path:
            first.setdefault(switch, index)
    return sorted(
        range(len(network.paths)),
        key=lambda index: ([first[switch] for switch in network.paths[index]], index),
    )
