"""Selection of the nodes of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from aitne_train.topology.hostlist import make_natural_key
from aitne_train.topology.rank_order import RankOrder, order_ranks
from aitne_train.topology.switch_tree import TopologyTree
from aitne_train.topology.uplink_load import (
    NO_SWITCH,
    UNKNOWN,
    find_fabric,
    find_path_below_all,
    find_path_in_fabric,
)

UPLINK = 1.0
"""Score of one directed uplink that the ring of the job's nodes uses: the predicted cost of the
exchange."""
LEFT_NODE = 0.1
"""Score of a free node that is left on a leaf of which the job uses a part: fragmentation."""
WAIT_PER_S = 1 / 60
"""Score of a second of waiting for a node: a minute weighs as much as one uplink."""
_MOST_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True)
class NodeAvailability:
    """Availability of a node for a job."""

    gpus: int = 0
    """Number of its GPUs."""
    free_gpus: int = 0
    """Number of its GPUs that are not allocated."""
    wait_s: float | None = 0.0
    """Seconds until the node can run a job: 0 if now; None if unknown. For values above 0, all of
    its GPUs are free then.
    """


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """Nodes that a job requests."""

    nodes: int
    gpus_per_node: int = 0
    max_leaves: int | None = None
    """Maximum number of leaves; None: any number."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Leaves in one domain of the topology that hold the job."""

    domain: str
    """Lowest switch above all nodes; ``NO_SWITCH``: there is none, because they belong to several
    fabrics."""
    leaves: tuple[tuple[str, int], ...]
    """Leaves with the number of nodes that are taken of each."""
    wait_s: float
    score: float
    """Sum of the predicted cost of the exchange, the fragmentation and the wait; less is better."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes for a job, with the order of its ranks."""

    order: RankOrder
    candidate: Candidate
    reason: str
    """Reason for the choice, as a sentence."""
    alternatives: tuple[Candidate, ...]
    """The next best candidates."""


@dataclass(frozen=True, slots=True)
class Insufficient:
    """Result if too few nodes are free at present."""

    missing: int
    """Number of nodes that are missing."""
    reason: str
    alternatives: tuple[str, ...]
    """Changes of the request with which it would fit now."""


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Result if the cluster can never run the job."""

    limit: str
    """What is exceeded: ``nodes``, ``gpus_per_node`` or ``max_leaves``."""
    reason: str
    alternatives: tuple[str, ...]
    """Changes of the request with which it could run."""


def select_nodes(
    tree: TopologyTree, nodes: Mapping[str, NodeAvailability], request: PlacementRequest
) -> Placement | Insufficient | Infeasible:
    """Return the best nodes for a job.

    Candidates are all lowest switches below which enough nodes are free now, and all lowest switches
    below which enough nodes are or become free. In each, the fewest leaves are taken, and those that
    are below the fewest switches. Nodes of several fabrics are chosen only if no fabric has enough
    nodes, even if all of them were free.

    Args:
        tree: topology of the cluster.
        nodes: capacity of each node by its name. Nodes that are not in the tree form one more leaf,
            or, beside several fabrics, one more fabric.
        request: what the job requests.
    """
    ready, waits = _group_fitting_nodes(tree, nodes, request.gpus_per_node)
    everything = _add_later_nodes(tree, ready, waits)
    spans = len(tree.fabrics) > 1 and _must_span_fabrics(tree, nodes, request)
    path = find_path_below_all if spans else find_path_in_fabric
    candidates = _list_candidates(tree, ready, waits, request, path)
    if waits:
        candidates += _list_candidates(tree, everything, waits, request, path)
    if not candidates:
        return _explain_refusal(tree, nodes, ready, request, spans=spans)
    # Sort order: by score; equal scores by the natural order of the names of the leaves.
    lowest = min(candidate.score for candidate in candidates)
    best = min(
        (candidate for candidate in candidates if candidate.score == lowest),
        key=lambda candidate: [make_natural_key(leaf) for leaf, _ in candidate.leaves],
    )
    chosen = _list_candidate_nodes(best, everything if best.wait_s else ready, waits, nodes)
    others = [each for each in candidates if each.leaves != best.leaves]
    alternatives = nsmallest(_MOST_ALTERNATIVES, others, key=lambda each: each.score)
    return Placement(
        order_ranks(tree, chosen), best, _describe_candidate(tree, best), tuple(alternatives)
    )


def _must_span_fabrics(
    tree: TopologyTree, nodes: Mapping[str, NodeAvailability], request: PlacementRequest
) -> bool:
    """Return whether no fabric has enough nodes for a job, even if all of them were free."""
    leaf_of, gpus = tree.leaf_of, request.gpus_per_node
    on_leaf = Counter(
        leaf_of.get(name) or tree.find_leaf(name) or UNKNOWN
        for name, node in nodes.items()
        if node.gpus >= gpus
    )
    sizes = _list_leaf_sizes(tree, on_leaf, spans=False)
    return max(map(sum, sizes), default=0) < request.nodes


_Leaves = dict[str, list[str]]
"""Nodes of each leaf that fit, those that wait last, the shortest wait first."""


def _group_fitting_nodes(
    tree: TopologyTree, nodes: Mapping[str, NodeAvailability], gpus: int
) -> tuple[_Leaves, dict[str, float]]:
    """Return the nodes that fit now by their leaves, and the waits of those that fit later."""
    ready: _Leaves = {}
    waits: dict[str, float] = {}
    leaf_of = tree.leaf_of
    for name, node in nodes.items():
        if node.wait_s == 0:
            if node.free_gpus >= gpus:
                leaf = leaf_of.get(name) or tree.find_leaf(name) or UNKNOWN
                if leaf in ready:
                    ready[leaf].append(name)
                else:
                    ready[leaf] = [name]
        elif node.wait_s is not None and node.gpus >= gpus:
            waits[name] = node.wait_s
    return ready, waits


def _add_later_nodes(tree: TopologyTree, ready: _Leaves, waits: Mapping[str, float]) -> _Leaves:
    """Return the nodes that fit now or later by their leaves."""
    if not waits:
        return ready
    leaves = {leaf: list(names) for leaf, names in ready.items()}
    for name in sorted(waits, key=lambda each: waits[each]):
        leaves.setdefault(tree.find_leaf(name) or UNKNOWN, []).append(name)
    return leaves


def _list_candidates(
    tree: TopologyTree,
    leaves: _Leaves,
    waits: Mapping[str, float],
    request: PlacementRequest,
    path_to: Callable[[TopologyTree, str], tuple[str, ...]],
) -> list[Candidate]:
    paths = {leaf: path_to(tree, leaf) for leaf in leaves}
    counts: dict[str, int] = {}
    for leaf, path in paths.items():
        for switch in path:
            counts[switch] = counts.get(switch, 0) + len(leaves[leaf])
    fits = {switch for switch, count in counts.items() if count >= request.nodes}
    above = {
        switch
        for path in paths.values()
        for depth, switch in enumerate(path[:-1])
        if switch in fits and path[depth + 1] in fits
    }
    inside: dict[str, list[str]] = {}
    for leaf, path in paths.items():
        for switch in path:
            if switch in fits and switch not in above:
                inside.setdefault(switch, []).append(leaf)
    candidates = []
    for domain, members in inside.items():
        for taken in _list_fillings(domain, members, paths, leaves, request.nodes):
            if request.max_leaves is None or len(taken) <= request.max_leaves:
                candidates.append(_make_candidate(domain, taken, paths, leaves, waits))
    return candidates


def _list_fillings(
    domain: str,
    members: Sequence[str],
    paths: Mapping[str, tuple[str, ...]],
    leaves: _Leaves,
    count: int,
) -> list[dict[str, int]]:
    """Return one or two ways to take ``count`` nodes from the leaves of a domain: the fewest leaves,
    and the fullest switches first."""
    if len(members) == 1:
        return [{members[0]: count}]
    fewest = _take_fewest_leaves(members, leaves, count)
    if all(paths[leaf][-2:-1] == (domain,) for leaf in members):
        return [fewest]  # no switch in between
    fullest: dict[str, int] = {}
    rest, below = count, list(members)
    depth = paths[members[0]].index(domain) + 1
    while rest:
        groups: dict[str, list[str]] = {}
        for leaf in below:
            groups.setdefault(paths[leaf][min(depth, len(paths[leaf]) - 1)], []).append(leaf)
        sizes = {
            switch: sum(len(leaves[leaf]) for leaf in group) for switch, group in groups.items()
        }
        # Sort order: the smallest switch that holds the rest, else the largest; then natural.
        holding = [switch for switch, size in sizes.items() if size >= rest]
        if holding:
            switch = min(holding, key=lambda each: (sizes[each], make_natural_key(each)))
            if len(groups[switch]) == 1:
                fullest[groups[switch][0]] = rest
                break
            below, depth = groups[switch], depth + 1
            continue
        switch = min(sizes, key=lambda each: (-sizes[each], make_natural_key(each)))
        for leaf in groups[switch]:
            fullest[leaf] = len(leaves[leaf])
        rest -= sizes[switch]
        below = [leaf for leaf in below if leaf not in fullest]
    return [fewest] if fullest == fewest else [fewest, fullest]


def _take_fewest_leaves(members: Sequence[str], leaves: _Leaves, count: int) -> dict[str, int]:
    """Take the largest leaves, and the rest from the smallest leaf that holds it.

    Sort order: by the number of nodes, the largest first, then by the natural order of names.
    """
    taken: dict[str, int] = {}
    rest = count
    for leaf in sorted(members, key=lambda each: (-len(leaves[each]), make_natural_key(each))):
        if len(leaves[leaf]) >= rest:
            last = [each for each in members if each not in taken and len(leaves[each]) >= rest]
            taken[min(last, key=lambda each: (len(leaves[each]), make_natural_key(each)))] = rest
            break
        taken[leaf] = len(leaves[leaf])
        rest -= len(leaves[leaf])
    return taken


def _make_candidate(
    domain: str,
    taken: Mapping[str, int],
    paths: Mapping[str, tuple[str, ...]],
    leaves: _Leaves,
    waits: Mapping[str, float],
) -> Candidate:
    uplinks = 0
    if len(taken) > 1:
        used = {switch for leaf in taken for switch in paths[leaf][paths[leaf].index(domain) + 1 :]}
        uplinks = 2 * len(used)
    left = sum(len(leaves[leaf]) - count for leaf, count in taken.items())
    wait_s = max(waits.get(leaves[leaf][count - 1], 0.0) for leaf, count in taken.items())
    score = UPLINK * uplinks + LEFT_NODE * left + WAIT_PER_S * wait_s
    return Candidate(domain, tuple(taken.items()), wait_s, score)


def _list_candidate_nodes(
    candidate: Candidate,
    leaves: _Leaves,
    waits: Mapping[str, float],
    nodes: Mapping[str, NodeAvailability],
) -> list[str]:
    """Return the nodes of a candidate in the natural order of their names.

    Sort order on each leaf: by the wait, then by the GPUs that are free, the fewest first, then
    natural.
    """

    def key(name: str) -> tuple[float, int, object]:
        node = nodes[name]
        return (
            waits.get(name, 0.0),
            node.gpus if name in waits else node.free_gpus,
            make_natural_key(name),
        )

    names = []
    for leaf, count in candidate.leaves:
        names += sorted(leaves[leaf], key=key)[:count]
    return sorted(names, key=make_natural_key)


def _describe_candidate(tree: TopologyTree, candidate: Candidate) -> str:
    if candidate.domain == NO_SWITCH:
        count = sum(number for _, number in candidate.leaves)
        text = spanning_reason(tree, (leaf for leaf, _ in candidate.leaves), count)
    elif len(candidate.leaves) == 1:
        text = f"all nodes are on {candidate.leaves[0][0]}"
    else:
        text = f"{len(candidate.leaves)} leaves below {candidate.domain} hold the job"
    return text if not candidate.wait_s else f"{text}, the last node in {candidate.wait_s:g} s"


def spanning_reason(tree: TopologyTree, leaves: Iterable[str], nodes: int) -> str:
    """Return the sentence, without a full stop, about a job of ``nodes`` nodes on leaves of several
    fabrics."""
    roots = {find_fabric(tree, leaf) for leaf in leaves}
    names = [root for root in tree.fabrics if root in roots]
    if UNKNOWN in roots:
        names.append("nodes that the topology lacks")
    return (
        f"no fabric has {nodes} nodes for the job, which would span {', '.join(names)}; Slurm refuses that "
        "(Requested node configuration is not available)"
    )


def _explain_refusal(
    tree: TopologyTree,
    nodes: Mapping[str, NodeAvailability],
    ready: _Leaves,
    request: PlacementRequest,
    *,
    spans: bool,
) -> Insufficient | Infeasible:
    count, gpus = request.nodes, request.gpus_per_node
    largest = max((node.gpus for node in nodes.values()), default=0)
    if gpus > largest:
        return Infeasible(
            "gpus_per_node",
            f"{gpus} GPUs on each node are requested, and the largest node has {largest}",
            (f"{largest} GPUs on each node",) if largest else (),
        )
    on_leaf: dict[str, int] = {}
    for name, node in nodes.items():
        if node.gpus >= gpus:
            leaf = tree.find_leaf(name) or UNKNOWN
            on_leaf[leaf] = on_leaf.get(leaf, 0) + 1
    total = sum(on_leaf.values())
    if count > total:
        return Infeasible(
            "nodes",
            f"{count} nodes with {gpus} GPUs are requested, and the cluster has {total}",
            (f"{total} nodes",) if total else (),
        )
    if request.max_leaves is not None:
        most = max(
            sum(each[: request.max_leaves]) for each in _list_leaf_sizes(tree, on_leaf, spans=spans)
        )
        if count > most:
            return Infeasible(
                "max_leaves",
                f"{count} nodes are requested on at most {request.max_leaves} leaves, which have {most}",
                (f"{most} nodes", "more leaves"),
            )
    sizes = _list_leaf_sizes(
        tree, {leaf: len(names) for leaf, names in ready.items()}, spans=spans
    ) or [[]]
    free = max(sum(each[: request.max_leaves]) for each in sizes)
    where = "" if request.max_leaves is None else f" on the best {request.max_leaves}"
    if len(tree.fabrics) > 1 and not spans:
        where += " of one fabric" if where else " on one fabric"
    alternatives = [f"{free} nodes"] if free else []
    if max(map(sum, sizes)) >= count:
        alternatives.append("more leaves")
    return Insufficient(
        count - free,
        f"{count} nodes with {gpus} free GPUs are requested, and {free} are free{where}",
        tuple(alternatives),
    )


def _list_leaf_sizes(
    tree: TopologyTree, on_leaf: Mapping[str, int], *, spans: bool
) -> list[list[int]]:
    """Return the numbers of nodes on the leaves of each fabric, the largest first; of all fabrics
    together if the job may span them."""
    sizes: dict[str, list[int]] = {}
    for leaf, count in on_leaf.items():
        sizes.setdefault(NO_SWITCH if spans else find_fabric(tree, leaf), []).append(count)
    return [sorted(each, reverse=True) for each in sizes.values()]
