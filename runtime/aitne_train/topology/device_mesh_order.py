"""Orders of nodes for a mesh of ranks, such as tensor x pipeline x data parallelism.

The ranks along each dimension of the mesh form rings. Rank numbers count the innermost dimension
first.
"""

from __future__ import annotations

from aitne_train.topology.errors import TopologyError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

    from aitne_train.topology.uplink_load import Edges, Network

MAX_RANKS = 65_536
MAX_SWAPPED = 4_096
"""Maximum number of nodes for which swaps are tried."""
_MOST_PASSES = 16


def count_edges(sizes: Sequence[int], nodes: int, ranks_per_node: int) -> Edges:
    """Return how many pairs of ranks send from one node to another in a mesh of ranks.

    The keys are pairs of positions in the order of the nodes: sender, receiver. Pairs of ranks on
    the same node are not counted.

    Args:
        sizes: sizes of the dimensions, innermost first.
        nodes: number of nodes.
        ranks_per_node: number of ranks on each node.

    Raises:
        TopologyError: the mesh has more than ``MAX_RANKS`` ranks, or not
            ``nodes * ranks_per_node``.
    """
    world = 1
    for size in sizes:
        world *= max(size, 0)
        if world > MAX_RANKS:
            break
    shape = " x ".join(map(str, sizes))
    if world > MAX_RANKS:
        raise TopologyError(
            f"the mesh {shape} has more than {MAX_RANKS} ranks", "Use a smaller one."
        )
    if world != nodes * ranks_per_node:
        raise TopologyError(
            f"the mesh {shape} has {world} ranks, but {nodes} nodes with {ranks_per_node} ranks each have "
            f"{nodes * ranks_per_node}",
            "Change a dimension or the number of nodes, so that both numbers are the same.",
        )
    pairs: dict[tuple[int, int], int] = {}
    stride = 1
    for size in sizes:
        for rank in range(world if size > 1 else 0):
            here = rank // stride % size
            peer = rank + stride * ((here + 1) % size - here)
            pair = (rank // ranks_per_node, peer // ranks_per_node)
            if pair[0] != pair[1]:
                pairs[pair] = pairs.get(pair, 0) + 1
        stride *= size
    return pairs


def list_group_sizes(sizes: Sequence[int], ranks_per_node: int) -> list[int]:
    """Return how many nodes the inner dimensions of the mesh occupy, in increasing order: the
    innermost dimension, the two innermost ones, and so on.

    Sizes that are not a whole number of nodes, or are a single node, are omitted.

    Args:
        sizes: sizes of the dimensions, innermost first.
        ranks_per_node: number of ranks on each node.
    """
    groups: list[int] = []
    ranks = 1
    for size in sizes:
        ranks *= size
        nodes, rest = divmod(ranks, ranks_per_node)
        if not rest and nodes > (groups[-1] if groups else 1):
            groups.append(nodes)
    return groups


def group_nodes(network: Network, order: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return an order that keeps the nodes of each group of the mesh below as low a switch as
    possible.

    Args:
        network: topology of the nodes.
        order: indices of the nodes in depth-first order.
        sizes: numbers of nodes of the groups, from ``list_group_sizes``.

    Sort order: groups are formed at each leaf from its nodes in the given order; the nodes that
    remain are combined at the switch above, and so on up to the root. The next larger groups are
    formed from these groups in the same way, and the result is depth-first.
    """
    position: dict[str, int] = {}
    for place, index in enumerate(order):
        for switch in network.paths[index]:
            position.setdefault(switch, place)
    items = [(network.paths[index], [index]) for index in order]
    formed = 1
    for size in sizes:
        items = _merge_level(items, size // formed)
        items.sort(key=lambda item: [position[switch] for switch in item[0]])
        formed = size
    return [index for _, members in items for index in members]


def _merge_level(
    items: Sequence[tuple[tuple[str, ...], list[int]]], size: int
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Merge ``size`` items at a time into one, below the lowest switch with enough items.

    An item is the path of a switch (from the root) and the indices of nodes below this switch.
    The last item at the root may be smaller.
    """
    below: dict[tuple[str, ...], list[list[int]]] = {}
    for path, item in items:
        below.setdefault(path, []).append(item)
    groups = []
    for depth in range(max(map(len, below)), 0, -1):
        for path in [path for path in below if len(path) == depth]:
            members = below.pop(path)
            whole = len(members) // size * size if depth > 1 else len(members)
            for start in range(0, whole, size):
                together = members[start : start + size]
                groups.append((path, [index for each in together for index in each]))
            if members[whole:]:
                below.setdefault(path[:-1], []).extend(members[whole:])
    return groups


def swap_nodes(network: Network, order: Sequence[int], pairs: Edges) -> list[int]:
    """Return ``order`` improved by pairwise swaps of nodes.

    Each swap reduces the number of crossings and does not increase the load of the busiest uplink.
    The search stops when no such swap exists, or after ``_MOST_PASSES`` passes over all positions.

    A swap can reduce the crossings only if at least one of the two nodes has more partners on the
    leaf of the other node than on its own leaf; other swaps are not tried.
    """
    return _Swaps(network, order, pairs).improve()


class _Swaps:
    """Search for swaps of nodes.

    ``_near[position]`` maps each neighbour in the mesh to the number of pairs of ranks that
    communicate with it. ``_counts[position]`` has the same numbers summed by leaf, and ``_loads``
    the number of pairs on each directed uplink.
    """

    def __init__(self, network: Network, order: Sequence[int], pairs: Edges) -> None:
        self._network = network
        self._order = list(order)
        self._leaves = [network.leaves[index] for index in order]
        self._incident: list[list[tuple[int, int, int]]] = [[] for _ in order]
        self._near: list[dict[int, int]] = [{} for _ in order]
        self._loads: dict[tuple[str, bool], int] = {}
        for (one, other), count in pairs.items():
            edge = (one, other, count)
            self._incident[one].append(edge)
            self._incident[other].append(edge)
            self._near[one][other] = self._near[one].get(other, 0) + count
            self._near[other][one] = self._near[other].get(one, 0) + count
            self._add_edge(edge, count)
        self._counts: list[dict[str, int]] = []
        self._members: dict[str, list[int]] = {}
        for position, leaf in enumerate(self._leaves):
            self._members.setdefault(leaf, []).append(position)
            counts: dict[str, int] = {}
            for other, count in self._near[position].items():
                counts[self._leaves[other]] = counts.get(self._leaves[other], 0) + count
            self._counts.append(counts)

    def improve(self) -> list[int]:
        for _ in range(_MOST_PASSES):
            swaps = 0
            for position in range(len(self._order)):
                swaps += self._improve_position(position)
            if not swaps:
                break
        return self._order

    def _improve_position(self, position: int) -> bool:
        """Perform the best swap for ``position``; return False if no swap is an improvement.

        The swap that saves the most crossings is best; among equal swaps, the one with the lowest
        other position.
        """
        leaf, counts, near = self._leaves[position], self._counts[position], self._near[position]
        swaps = []
        for target, count in counts.items():
            gain = count - counts.get(leaf, 0)
            if target == leaf or gain <= 0:
                continue
            for other in self._members[target]:
                back = self._counts[other]
                total = gain + back.get(leaf, 0) - back.get(target, 0) - 2 * near.get(other, 0)
                if total > 0:
                    swaps.append((-total, other))
        if not swaps:
            return False
        before = max(self._loads.values())
        for _, other in sorted(swaps):
            self._swap_positions(position, other)
            if max(self._loads.values()) <= before:
                return True
            self._swap_positions(position, other)
        return False

    def _swap_positions(self, one: int, other: int) -> None:
        changed = {*self._incident[one], *self._incident[other]}
        for edge in changed:
            self._add_edge(edge, -edge[2])
        leaves, order = self._leaves, self._order
        first, second = leaves[one], leaves[other]
        leaves[one], leaves[other] = second, first
        order[one], order[other] = order[other], order[one]
        self._members[first][self._members[first].index(one)] = other
        self._members[second][self._members[second].index(other)] = one
        for moved, source, target in ((one, first, second), (other, second, first)):
            for neighbour, count in self._near[moved].items():
                counts = self._counts[neighbour]
                counts[source] -= count
                counts[target] = counts.get(target, 0) + count
        for edge in changed:
            self._add_edge(edge, edge[2])

    def _add_edge(self, edge: tuple[int, int, int], count: int) -> None:
        source, target = self._leaves[edge[0]], self._leaves[edge[1]]
        if source != target:
            for uplink in self._network.find_route(source, target):
                self._loads[uplink] = self._loads.get(uplink, 0) + count
