"""Leaves of the network on which a job can run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from aitne.core.placement.select import (
    Candidate,
    Insufficient,
    NodeAvailability,
    Placement,
    PlacementRequest,
    select,
)
from aitne.topology.hostlist import compress_hostlist, natural_key
from aitne.topology.network import UNKNOWN
from aitne.topology.order import rank_order
from aitne.topology.tree import SourceLine, Switch, TopologyTree

_STORED = SourceLine("the job's record", 1)


def fewest_leaves(
    tree: TopologyTree, nodes: Iterable[str], count: int, required: Collection[str] = ()
) -> int | None:
    """Return the smallest number of leaves that hold ``count`` of ``nodes``, with all nodes in
    ``required``; None if there are fewer nodes. Nodes that are not in the tree form one more leaf.
    """
    sizes = Counter(tree.leaf_of.get(node, UNKNOWN) for node in nodes)
    taken = {tree.leaf_of.get(node, UNKNOWN) for node in required}
    rest = count - sum(sizes[leaf] for leaf in taken)
    number = len(taken)
    for size in sorted((sizes[leaf] for leaf in sizes.keys() - taken), reverse=True):
        if rest <= 0:
            break
        rest -= size
        number += 1
    return number if rest <= 0 else None


def select_with(
    tree: TopologyTree,
    nodes: Mapping[str, NodeAvailability],
    request: PlacementRequest,
    required: Collection[str],
) -> Placement | Insufficient | None:
    """Return nodes for a job among which are all nodes in ``required``, and the nearest ones to
    these; None if the leaves of the required nodes and the fewest others are more than the job
    permits.

    Sort order of the leaves: those of the required nodes, then those with the lowest common switch
    with one of them, then the largest, then natural. It is not always the cheapest choice.

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
    missing = sorted(set(required) - set(ready), key=natural_key)
    if missing:
        what = "node {} is" if len(missing) == 1 else "nodes {} are"
        reason = f"{what.format(compress_hostlist(missing))} not free"
        return Insufficient(len(missing), reason, ())
    if len(ready) < request.nodes:
        reason = f"{request.nodes} nodes are requested, and {len(ready)} are free"
        return Insufficient(request.nodes - len(ready), reason, ())
    leaves: dict[str, list[str]] = {}
    for name in sorted(ready, key=natural_key):
        if name not in required:
            leaves.setdefault(tree.leaf_of.get(name, UNKNOWN), []).append(name)
    own = {tree.leaf_of.get(name, UNKNOWN) for name in required}
    most = request.max_leaves
    for near in (True, False):
        order = sorted(
            leaves,
            key=lambda leaf: (
                leaf not in own,
                -_depth(tree, leaf, own) if near else 0,
                -len(leaves[leaf]),
                natural_key(leaf),
            ),
        )
        names = [*required, *(name for leaf in order for name in leaves[leaf])][: request.nodes]
        counts = Counter(tree.leaf_of.get(name, UNKNOWN) for name in names)
        if most is None or len(counts) <= most:
            given = sorted(names, key=natural_key)
            candidate = Candidate(_domain(tree, list(counts)), tuple(counts.items()), 0.0, 0.0)
            reason = f"the job file names {len(required)} of {request.nodes} nodes"
            return Placement(rank_order(tree, given), candidate, reason, ())
    return None


def choose(
    tree: TopologyTree,
    free: Collection[str],
    count: int,
    required: Collection[str] = (),
    max_leaves: int | None = None,
) -> tuple[str, ...] | None:
    """Return the best ``count`` of the free nodes, among them all nodes in ``required``; None if there
    are too few of them, or too few on ``max_leaves`` leaves.
    """
    nodes = dict.fromkeys(free, NodeAvailability())
    request = PlacementRequest(count, max_leaves=max_leaves)
    found: object
    if required:
        found = select_with(tree, nodes, request, required)
    else:
        found = select(tree, nodes, request)
    return found.order.order if isinstance(found, Placement) else None


def tree_of(paths: Mapping[str, tuple[str, ...]]) -> TopologyTree | None:
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


def _depth(tree: TopologyTree, leaf: str, others: Collection[str]) -> int:
    """Return the number of switches above the lowest common switch of a leaf and one of the others."""
    if leaf == UNKNOWN:
        return 0
    depths = [
        len(tree.path(tree.common_ancestor(leaf, other))) for other in others if other != UNKNOWN
    ]
    return max(depths, default=0)


def _domain(tree: TopologyTree, leaves: list[str]) -> str:
    domain = leaves[0]
    for leaf in leaves:
        domain = tree.root if UNKNOWN in (leaf, domain) else tree.common_ancestor(domain, leaf)
    return domain
