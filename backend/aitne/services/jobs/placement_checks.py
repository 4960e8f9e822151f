"""The ``placement`` field of a job file: problems with it, and the nodes on which the job can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from aitne.core.cluster.request_fit import Fit, check_fit, count_gpus, select_free_nodes
from aitne.core.errors import FieldProblem
from aitne.core.models.cluster import Cluster, Node
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.job import DistributedSpec, JobSpec
from aitne.core.models.placement import (
    FROM_FILE,
    Compact,
    LeafLimit,
    LeafUse,
    PlacementAlternative,
    PlacementPlan,
    PlacementSpec,
    PlannedCost,
    expand_node_lists,
)
from aitne.core.models.resources import Resources
from aitne.core.placement.leaf_selection import count_fewest_leaves, select_nodes_including
from aitne.core.placement.node_selection import (
    Candidate,
    Infeasible,
    Insufficient,
    NodeAvailability,
    Placement,
    PlacementRequest,
    select_nodes,
)
from aitne.core.ports.scheduler import SchedulerCapabilities
from aitne.core.units import format_duration
from aitne_train.topology.hostlist import compress_hostlist, make_natural_key
from aitne_train.topology.rank_order import RankOrder, order_ranks
from aitne_train.topology.switch_tree import TopologyTree

PREFER_WAIT_S = 300
"""Time for which a job with ``compact: prefer`` and no ``wait`` waits for the fewest leaves."""
_MOST_NAMED = 8
_MOST_OTHERS = 3
"""Maximum number of alternatives in a plan."""
_MOST_PATHS = 1_000
"""Maximum number of nodes whose switches are stored with a job."""


def placement_problems(
    placement: PlacementSpec,
    slurm: SlurmOptions,
    resources: Resources,
    ranks: DistributedSpec | None,
) -> Iterator[FieldProblem]:
    """Yield each conflict between ``placement`` and the job's Slurm options, resources and ranks.

    ``ranks`` is None if the job is not distributed.
    """
    if len(placement.node_names) > resources.nodes:
        yield FieldProblem(
            "placement.nodes",
            f"{len(placement.node_names)} nodes are named, and the job requests {resources.nodes}",
            ",".join(placement.nodes),
            f"at most {resources.nodes}, or more resources.nodes",
        )
    if placement.mesh is not None:
        count = 0 if ranks is None else resources.nodes * ranks.ranks_per_node
        if count != placement.mesh.rank_count:
            fault = (
                f"the job has {count}"
                if count
                else "the job is not distributed (add `distributed`)"
            )
            yield FieldProblem(
                "placement.mesh",
                f"the mesh has {placement.mesh.rank_count} ranks, but {fault}",
                " x ".join(map(str, placement.mesh.sizes)),
                f"sizes whose product is {count}" if count else "no mesh, or distributed",
            )
    yield from _list_contradictions(slurm, placement)


def _list_contradictions(slurm: SlurmOptions, placement: PlacementSpec) -> Iterator[FieldProblem]:
    """Yield a problem for each option that ``slurm`` and ``placement`` set to different values."""
    try:
        excluded = set(expand_node_lists((slurm.exclude,))) if slurm.exclude else set()
    except ValueError as error:
        yield FieldProblem("slurm.exclude", str(error), slurm.exclude, "nodes such as gpu[07-09]")
        return
    if placement.exclude and excluded and excluded != set(placement.excluded_names):
        yield FieldProblem(
            "placement.exclude",
            f"slurm.exclude names other nodes, {slurm.exclude}",
            ",".join(placement.exclude),
            "all nodes in placement.exclude, and no slurm.exclude",
        )
    if both := sorted(excluded & set(placement.node_names), key=make_natural_key):
        yield FieldProblem(
            "placement.nodes", f"slurm.exclude names {both[0]}", both[0], "other nodes"
        )
    set_fields = {
        "--nodelist": placement.nodes and "nodes",
        "--switches": placement.compact is not Compact.OFF and "compact",
        "--distribution": placement.order != "auto" and "order",
    }
    for option in slurm.extra:
        name = option.partition("=")[0]
        if field := set_fields.get(name):
            yield FieldProblem(
                f"placement.{field}",
                f"{name} in slurm.extra sets the same",
                option,
                f"placement.{field}, and no {name} in slurm.extra",
            )


def unknown_nodes(placement: PlacementSpec, nodes: Sequence[Node]) -> Iterator[FieldProblem]:
    """Yield a problem for each field that names nodes that do not exist in the cluster. Yields
    nothing while no nodes of the cluster are known.
    """
    known = {node.name for node in nodes}
    for field, names in (
        ("nodes", placement.node_names),
        ("exclude", placement.excluded_names),
    ):
        unknown = [name for name in names if name not in known]
        if known and unknown:
            yield FieldProblem(
                f"placement.{field}",
                f"there is no node {unknown[0]}"
                if len(unknown) == 1
                else f"there are no nodes {_format_host_list(unknown)}",
                _format_host_list(unknown),
                _format_host_list(sorted(known, key=make_natural_key)),
            )


def fit_permitted_nodes(
    resources: Resources, placement: PlacementSpec, nodes: Sequence[Node]
) -> Fit:
    """Return how the nodes that a job's placement permits can provide the requested resources."""
    excluded = set(placement.excluded_names)
    allowed = [node for node in nodes if node.name not in excluded]
    if nodes and not allowed:
        problem = FieldProblem(
            "placement.exclude", "no node is left", ",".join(placement.exclude), "fewer nodes"
        )
        return Fit(False, False, None, (problem,))
    fitting = check_fit(resources, allowed)
    names = set(placement.node_names)
    named = [node for node in allowed if node.name in names]
    if fitting.problems or not named:
        return fitting
    enough = {node.name for node in fitting.able}
    if small := [node.name for node in named if node.name not in enough]:
        problem = FieldProblem(
            "placement.nodes",
            f"{_format_host_list(small)} cannot provide what the job requests on each node",
            _format_host_list(small),
            _format_host_list([node.name for node in fitting.able]),
        )
        return Fit(False, False, None, (problem,))
    own = check_fit(resources.model_copy(update={"nodes": len(named)}), named)
    return fitting if own.starts_now else replace(own, able=fitting.able)


def with_switch_count(
    spec: JobSpec,
    nodes: Sequence[Node],
    tree: TopologyTree | None,
    cluster: Cluster,
    capabilities: SchedulerCapabilities,
) -> tuple[JobSpec, tuple[str, ...]]:
    """Return the specification with the number of leaf switches that the job may use, and notes for
    its user.

    Args:
        spec: specification of the job.
        nodes: nodes that could run a part of the job.
        tree: switches above the nodes; None: not known.
        cluster: state of the cluster.
        capabilities: features of the scheduler.
    """
    placement, count = spec.placement, spec.resources.nodes
    leaves: LeafLimit | None = None
    notes: list[str] = []
    names = [node.name for node in nodes]
    if count > 1 and placement.compact is not Compact.OFF:
        fewest = None
        if tree is not None:
            fewest = count_fewest_leaves(tree, names, count, placement.node_names)
        if fewest is None:
            notes.append(
                "placement.compact has no effect, because the topology of the cluster is not known."
                if tree is None
                else "placement.compact has no effect, because too few nodes are known."
            )
        else:
            leaves, notes = _leaf_limit(placement, fewest, cluster.max_switch_wait_s)
    paths = None
    if tree is not None and not capabilities.topology and len(names) <= _MOST_PATHS:
        paths = {
            name: tree.find_path(leaf)
            for name in names
            if (leaf := tree.find_leaf(name)) is not None
        } or None
    return spec.model_copy(update={"leaves": leaves, "node_paths": paths}), tuple(notes)


def _leaf_limit(
    placement: PlacementSpec, count: int, longest_s: int | None
) -> tuple[LeafLimit, list[str]]:
    wait_s = placement.wait
    if wait_s is None and placement.compact is Compact.PREFER:
        wait_s = PREFER_WAIT_S
    if longest_s is None or (wait_s is not None and wait_s <= longest_s):
        return LeafLimit(count=count, wait_s=wait_s), []
    leaf = "one leaf" if count == 1 else f"{count} leaves"
    note = (
        f"The scheduler waits at most {format_duration(longest_s)} for nodes on {leaf} "
        "(max_switch_wait), and then starts the job on more."
    )
    return LeafLimit(count=count, wait_s=longest_s), [note]


def plan_placement(
    spec: JobSpec,
    nodes: Sequence[Node],
    tree: TopologyTree | None,
    waits: Mapping[str, float],
) -> PlacementPlan | None:
    """Return where a job would run if it started now, and the order of its ranks. None: the job has
    one node, or the topology is not known.

    Placements that include busy nodes, for which the job would have to wait, are returned as
    alternatives.

    Args:
        spec: specification of the job.
        nodes: nodes that could run a part of the job.
        tree: switches above the nodes; None: not known.
        waits: seconds until each busy node is free, by name; nodes for which this is unknown are
            absent.
    """
    resources, required = spec.resources, spec.placement.node_names
    if tree is None or resources.nodes == 1 or not nodes:
        return None
    ready = {node.name for node in select_free_nodes(resources, nodes)}
    available = {}
    for node in nodes:
        total, free = count_gpus(resources, node)
        available[node.name] = NodeAvailability(total, free, 0 if node.name in ready else None)
    limit = spec.leaves.count if spec.leaves and spec.placement.compact is Compact.REQUIRE else None
    request = PlacementRequest(resources.nodes, resources.gpu.count, limit)
    found: Placement | Insufficient | Infeasible | None
    if required:
        found = select_nodes_including(tree, available, request, required)
    else:
        found = select_nodes(tree, available, request)
    if found is None:
        plan = PlacementPlan(reason=f"The named nodes are on more than {limit} leaves.")
    elif isinstance(found, Placement):
        plan = _make_plan(spec, tree, found)
    else:
        plan = PlacementPlan(reason=_make_sentence(found.reason), changes=found.alternatives)
    later = {
        name: replace(node, wait_s=waits[name])
        for name, node in available.items()
        if name in waits and node.wait_s is None and node.free_gpus < resources.gpu.count
    }
    if later and not required:
        plan = _with_alternatives(plan, select_nodes(tree, {**available, **later}, request))
    if spec.leaves is None:
        return plan
    limits = {"max_leaves": spec.leaves.count, "max_leaves_wait_s": spec.leaves.wait_s}
    return plan.model_copy(update=limits)


def _with_alternatives(
    plan: PlacementPlan, selection: Placement | Insufficient | Infeasible
) -> PlacementPlan:
    """Return a copy of the plan whose alternatives come from ``selection``, a selection that includes
    busy nodes.
    """
    if not isinstance(selection, Placement):
        return plan
    others = [
        each
        for each in (selection.candidate, *selection.alternatives)
        if _list_leaf_uses(each) != plan.leaves
    ]
    return plan.model_copy(
        update={"alternatives": tuple(map(_make_alternative, others[:_MOST_OTHERS]))}
    )


def _make_alternative(candidate: Candidate) -> PlacementAlternative:
    return PlacementAlternative(
        leaves=_list_leaf_uses(candidate), wait_s=candidate.wait_s, score=candidate.score
    )


def _make_plan(spec: JobSpec, tree: TopologyTree, placement: Placement) -> PlacementPlan:
    names = tuple(sorted(placement.order.order, key=make_natural_key))
    order = _compute_rank_order(spec, tree, names)
    chosen = order.given if spec.placement.order == "given" else order.chosen
    from_file = spec.placement.order.startswith(FROM_FILE)
    return PlacementPlan(
        nodes=names,
        leaves=_list_leaf_uses(placement.candidate),
        order=() if from_file else names if spec.placement.order == "given" else order.order,
        crossings=PlannedCost(
            given=order.given.crossings, chosen=None if from_file else chosen.crossings
        ),
        busiest_uplink=PlannedCost(
            given=order.given.busiest_uplink,
            chosen=None if from_file else chosen.busiest_uplink,
        ),
        score=None if spec.placement.nodes else placement.candidate.score,
        reason=_make_sentence(placement.reason),
        alternatives=tuple(map(_make_alternative, placement.alternatives)),
    )


def _compute_rank_order(spec: JobSpec, tree: TopologyTree, names: Sequence[str]) -> RankOrder:
    mesh, ranks = spec.placement.mesh, spec.distributed
    if mesh is None or ranks is None:
        return order_ranks(tree, names)
    return order_ranks(tree, names, mesh=mesh.sizes, ranks_per_node=ranks.ranks_per_node)


def _list_leaf_uses(candidate: Candidate) -> tuple[LeafUse, ...]:
    return tuple(LeafUse(name=name, nodes=count) for name, count in candidate.leaves)


def _make_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _format_host_list(names: Sequence[str]) -> str:
    """Return the names as a host list such as ``gpu[01-04]``, shortened if there are many."""
    more = len(names) - _MOST_NAMED
    text = compress_hostlist(names) if more <= 0 else compress_hostlist(names[:_MOST_NAMED])
    return text if more <= 0 else f"{text} and {more} more"
