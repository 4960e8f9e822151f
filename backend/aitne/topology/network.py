"""Loads on the uplinks of a topology, for nodes of one job."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

    from aitne.topology.tree import TopologyTree

    Edges = Mapping[tuple[int, int], int]
    """How many pairs of ranks send from one position of an order to another."""

UNKNOWN = "(unknown)"
"""Leaf of the nodes that a topology does not contain. No switch can have this name."""


@dataclass(frozen=True, order=True)
class Cost:
    """Cost of an order of nodes.

    Costs are compared by ``busiest_uplink`` first, because this uplink limits every step of the
    program, then by ``crossings``.
    """

    busiest_uplink: int
    """Largest number of pairs of ranks that send over one uplink in one direction."""
    crossings: int
    """Number of pairs of ranks that send from one leaf to another."""


class Network:
    """The part of a topology that connects the nodes of a job.

    Args:
        tree: topology of the cluster.
        nodes: names of the nodes. Nodes that the tree does not contain are on the leaf
            ``UNKNOWN`` below the root.
    """

    def __init__(self, tree: TopologyTree, nodes: Sequence[str]) -> None:
        outside = (tree.root, UNKNOWN)
        self.paths: list[tuple[str, ...]] = []
        """Switches from the root to the leaf of each node."""
        for node in nodes:
            leaf = tree.leaf_of.get(node)
            self.paths.append(outside if leaf is None else tree.path(leaf))
        self.leaves = [path[-1] for path in self.paths]
        self._path_of = dict(zip(self.leaves, self.paths))  # noqa: B905 (3.9)
        self._routes: dict[tuple[str, str], tuple[tuple[str, bool], ...]] = {}

    def route(self, source: str, target: str) -> tuple[tuple[str, bool], ...]:
        """Return the directed uplinks on the path from the leaf ``source`` to the leaf ``target``.

        Each is the name of the switch that has the uplink, and whether data flows up to the
        switch's parent (True) or down from it (False).
        """
        route = self._routes.get((source, target))
        if route is None:
            up, down = self._path_of[source], self._path_of[target]
            common = 0
            while common < min(len(up), len(down)) and up[common] == down[common]:
                common += 1
            route = (
                *((switch, True) for switch in up[common:]),
                *((switch, False) for switch in down[common:]),
            )
            self._routes[source, target] = route
        return route

    def cost(self, order: Sequence[int], edges: Edges) -> Cost:
        """Return the cost of an order of the nodes.

        Args:
            order: index of the node at each position.
            edges: number of pairs of ranks that send from one position to another.
        """
        leaves = [self.leaves[index] for index in order]
        crossings = 0
        loads: dict[tuple[str, bool], int] = {}
        for (one, other), pairs in edges.items():
            source, target = leaves[one], leaves[other]
            if source != target:
                crossings += pairs
                for uplink in self.route(source, target):
                    loads[uplink] = loads.get(uplink, 0) + pairs
        return Cost(max(loads.values(), default=0), crossings)
