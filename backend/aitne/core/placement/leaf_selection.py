"""Leaves of the network on which a job can run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from aitne.core.placement.node_selection import (
    Candidate,
    Insufficient,
    NodeAvailability,
    Placement,
    PlacementRequest,
    select_nodes,
    spanning_reason,
)
from aitne_train.topology.hostlist import compress_hostlist, make_natural_key
from aitne_train.topology.rank_order import order_ranks
from aitne_train.topology.switch_tree import SourceLine, Switch, TopologyTree
from aitne_train.topology.uplink_load import NO_SWITCH, UNKNOWN, find_fabric

_STORED = SourceLine("the job's record", 1)


def count_fewest_leaves(
    tree: TopologyTree, nodes: Iterable[str], count: int, required: Collection[str] = ()
) -> int | None:
    """Return the smallest number of leaves of one fabric that hold ``count`` of ``nodes``, with all
    nodes in ``required``; of several fabrics if none has so many. None if there are fewer nodes.
    Nodes that are not in the tree form one more leaf.
    """
    by_fabric: dict[str, Counter[str]] = {}
    for node in nodes:
        leaf = tree.find_leaf(node) or UNKNOWN
        by_fabric.setdefault(find_fabric(tree, leaf), Counter())[leaf] += 1
    taken = {tree.find_leaf(node) or UNKNOWN for node in required}
    roots = {find_fabric(tree, leaf) for leaf in taken} or by_fabric.keys()
    whole = [by_fabric[root] for root in roots if root in by_fabric]
    if len(roots) > 1 and taken:
        whole = []
    numbers = [_count_fewest(sizes, taken, count) for sizes in whole]
    found = [number for number in numbers if number is not None]
    if found:
        return min(found)
    everything: Counter[str] = Counter()
    for sizes in by_fabric.values():
        everything.update(sizes)
    return _count_fewest(everything, taken, count)


def _count_fewest(sizes: Counter[str], taken: Collection[str], count: int) -> int | None:
    """Return the smallest number of leaves, among them those in ``taken``, that have ``count``
    nodes; None if all have fewer. ``sizes`` are the numbers of nodes of the leaves."""
    rest = count - sum(sizes[leaf] for leaf in taken)
    number = len(taken)
    for size in sorted((sizes[leaf] for leaf in sizes.keys() - taken), reverse=True):
        if rest <= 0:
            break
        rest -= size
        number += 1
    return number if rest <= 0 else None


def select_nodes_including(
    tree: TopologyTree,
    nodes: Mapping[str, NodeAvailability],
    request: PlacementRequest,
    required: Collection[str],
) -> Placement | Insufficient | None:
    """Return nodes for a job among which are all nodes in ``required``, and the nearest ones to
    these; None if the leaves of the required nodes and the fewest others are more than the job
    permits. Other fabrics than those of the required nodes are used only if these have too few
    nodes, even if all of them were free.

    Sort order of the leaves: those of the required nodes, then those of their fabrics, then those
    with the lowest common switch with one of them, then the largest, then natural. It is not always
    the cheapest choice.

    Args:
        tree: topology of the cluster.
        nodes: availability of each node by its name.
        request: what the job requests.
        required: nodes that the job must run on, at most as many as it requests.
    """
    ready = [
        name
        for name, node in nodes.items()
        if node.wait_s == 0 and node.free_gpus >= request.gpus_per_node
    ]
    missing = sorted(set(required) - set(ready), key=make_natural_key)
    if missing:
        what = "node {} is" if len(missing) == 1 else "nodes {} are"
        reason = f"{what.format(compress_hostlist(missing))} not free"
        return Insufficient(len(missing), reason, ())
    if len(ready) < request.nodes:
        reason = f"{request.nodes} nodes are requested, and {len(ready)} are free"
        return Insufficient(request.nodes - len(ready), reason, ())
    own = {tree.find_leaf(name) or UNKNOWN for name in required}
    roots = {find_fabric(tree, leaf) for leaf in own}

    def is_near(name: str) -> bool:
        return find_fabric(tree, tree.find_leaf(name) or UNKNOWN) in roots

    able = [name for name, node in nodes.items() if node.gpus >= request.gpus_per_node]
    if len([name for name in able if is_near(name)]) >= request.nodes:
        near_ready = [name for name in ready if is_near(name)]
        if len(near_ready) < request.nodes:
            reason = (
                f"{request.nodes} nodes are requested, and {len(near_ready)} are free on one fabric"
            )
            return Insufficient(request.nodes - len(near_ready), reason, ())
    leaves: dict[str, list[str]] = {}
    for name in sorted(ready, key=make_natural_key):
        if name not in required:
            leaves.setdefault(tree.find_leaf(name) or UNKNOWN, []).append(name)
    most = request.max_leaves
    for near in (True, False):
        order = sorted(
            leaves,
            key=lambda leaf: (
                leaf not in own,
                find_fabric(tree, leaf) not in roots,
                -_find_common_depth(tree, leaf, own) if near else 0,
                -len(leaves[leaf]),
                make_natural_key(leaf),
            ),
        )
        names = [*required, *(name for leaf in order for name in leaves[leaf])][: request.nodes]
        counts = Counter(tree.find_leaf(name) or UNKNOWN for name in names)
        if most is None or len(counts) <= most:
            given = sorted(names, key=make_natural_key)
            candidate = Candidate(_find_domain(tree, list(counts)), tuple(counts.items()), 0.0, 0.0)
            reason = f"the job file names {len(required)} of {request.nodes} nodes"
            if candidate.domain == NO_SWITCH:
                reason += f"; {spanning_reason(tree, counts, request.nodes)}"
            return Placement(order_ranks(tree, given), candidate, reason, ())
    return None


def select_nearest_nodes(
    tree: TopologyTree,
    free: Collection[str],
    count: int,
    required: Collection[str] = (),
    max_leaves: int | None = None,
    busy: Collection[str] = (),
) -> tuple[str, ...] | None:
    """Return the best ``count`` of the free nodes, among them all nodes in ``required``; None if there
    are too few of them, too few on ``max_leaves`` leaves, or too few on one fabric that has enough
    together with those in ``busy``.
    """
    nodes = dict.fromkeys(busy, NodeAvailability(wait_s=None)) | dict.fromkeys(
        free, NodeAvailability()
    )
    request = PlacementRequest(count, max_leaves=max_leaves)
    found: object
    if required:
        found = select_nodes_including(tree, nodes, request, required)
    else:
        found = select_nodes(tree, nodes, request)
    return found.order.order if isinstance(found, Placement) else None


def make_tree(paths: Mapping[str, tuple[str, ...]]) -> TopologyTree | None:
    """Return the tree of nodes whose switches, from the root to the leaf, are given by name; None if
    there are no nodes.

    Raises:
        TopologyError: the paths do not form one tree.
    """
    switches: dict[str, dict[str, None]] = {}
    nodes: dict[str, list[str]] = {}
    for node, path in paths.items():
        for above, below in pairwise(path):
            switches.setdefault(above, {})[below] = None
        nodes.setdefault(path[-1], []).append(node)
    names = dict.fromkeys([*switches, *nodes])
    if not names:
        return None
    return TopologyTree(
        Switch(name, _STORED, tuple(switches.get(name, ())), tuple(nodes.get(name, ())))
        for name in names
    )


def _find_common_depth(tree: TopologyTree, leaf: str, others: Collection[str]) -> int:
    """Return the number of switches above the lowest common switch of a leaf and one of the others."""
    if leaf == UNKNOWN:
        return 0
    common = [tree.find_common_ancestor(leaf, other) for other in others if other != UNKNOWN]
    return max((len(tree.find_path(switch)) for switch in common if switch is not None), default=0)


def _find_domain(tree: TopologyTree, leaves: list[str]) -> str:
    """Return the lowest switch above all leaves; ``NO_SWITCH`` if they are of several fabrics."""
    roots = {find_fabric(tree, leaf) for leaf in leaves}
    if len(roots) > 1:
        return NO_SWITCH
    if UNKNOWN in leaves:
        return next(iter(roots))
    domain = leaves[0]
    for leaf in leaves:
        domain = tree.find_common_ancestor(domain, leaf) or NO_SWITCH
    return domain
