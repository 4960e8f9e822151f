"""Loads on the uplinks of a topology, for nodes of one job."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

    from aitne_train.topology.switch_tree import TopologyTree

    Edges = Mapping[tuple[int, int], int]
    """How many pairs of ranks send from one position of an order to another."""

UNKNOWN = "(unknown)"
"""Leaf of the nodes that a topology does not contain. No switch can have this name."""
NO_SWITCH = "(no switch)"
"""Root above several fabrics, which stands for a connection that does not exist. No switch can have
this name."""


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
        nodes: names of the nodes.
    """

    def __init__(self, tree: TopologyTree, nodes: Sequence[str]) -> None:
        leaves = [tree.find_leaf(node) or UNKNOWN for node in nodes]
        paths = {leaf: find_path_below_all(tree, leaf) for leaf in set(leaves)}
        self.paths = [paths[leaf] for leaf in leaves]
        """Switches from the root to the leaf of each node."""
        self.leaves = [path[-1] for path in self.paths]
        self._path_of = dict(zip(self.leaves, self.paths))  # noqa: B905 (3.9)
        self._routes: dict[tuple[str, str], tuple[tuple[str, bool], ...]] = {}

    def find_route(self, source: str, target: str) -> tuple[tuple[str, bool], ...]:
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

    def compute_cost(self, order: Sequence[int], edges: Edges) -> Cost:
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
                for uplink in self.find_route(source, target):
                    loads[uplink] = loads.get(uplink, 0) + pairs
        return Cost(max(loads.values(), default=0), crossings)


def find_fabric(tree: TopologyTree, leaf: str) -> str:
    """Return the root of the fabric of a leaf. Nodes that the tree does not contain (``UNKNOWN``)
    belong to the only fabric, or to one of their own beside several."""
    if leaf == UNKNOWN:
        return tree.fabrics[0] if len(tree.fabrics) == 1 else UNKNOWN
    return tree.find_path(leaf)[0]


def find_path_in_fabric(tree: TopologyTree, leaf: str) -> tuple[str, ...]:
    """Return the switches from the root of its fabric to a leaf, which may be ``UNKNOWN``."""
    if leaf != UNKNOWN:
        return tree.find_path(leaf)
    return (tree.fabrics[0], UNKNOWN) if len(tree.fabrics) == 1 else (UNKNOWN,)


def find_path_below_all(tree: TopologyTree, leaf: str) -> tuple[str, ...]:
    """Return the switches from the root to a leaf, which may be ``UNKNOWN``. The root above several
    fabrics is ``NO_SWITCH``."""
    path = find_path_in_fabric(tree, leaf)
    return path if len(tree.fabrics) == 1 else (NO_SWITCH, *path)
