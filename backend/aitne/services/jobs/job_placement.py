"""Placement of running and ended jobs: the order of their nodes with its costs, and bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from aitne.core.errors import Conflict
from aitne.core.models.job import Job
from aitne.core.models.reported_placement import (
    JobPlacement,
    PlacementCosts,
    PlacementSwitch,
    ReportedCosts,
    ReportedPlacement,
)
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.store import Store
from aitne.store.job_snapshots_and_files import DocumentKind
from aitne_train.topology import device_mesh_order
from aitne_train.topology.rank_order import build_ring, order_ranks
from aitne_train.topology.switch_tree import TopologyTree
from aitne_train.topology.uplink_load import Cost, Network

MOST_IMPROVED = 512
"""Maximum number of nodes of a mesh for which the best order is searched."""


class JobPlacementService:
    """Service that returns the placement of jobs. If the platform has a topology of its own, costs
    are computed from it, because agents are not trusted.
    """

    def __init__(self, store: Store, topologies: ClusterTopologies) -> None:
        self._store = store
        self._topologies = topologies

    async def placement(self, actor: Actor, job_id: UUID) -> JobPlacement:
        """Return the placement of a job that has nodes.

        Raises:
            NotFound: there is no such job that the actor may see.
            Conflict: the job has no nodes.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_READ, actor, "job", job_id, owner=job.owner, project=job.project
        )
        if not job.nodes:
            raise Conflict(_explain_missing_placement(job))
        document = await self._store.find_document(job_id, DocumentKind.PLACEMENT)
        reported = None if document is None else ReportedPlacement.model_validate(document)
        if reported is not None and set(reported.given) != set(job.nodes):
            reported = None  # of an earlier start on other nodes
        tree = (await self._topologies.get_topology()).tree
        return await asyncio.to_thread(_make_placement, job, reported, tree)


def _explain_missing_placement(job: Job) -> str:
    if job.is_array or job.is_task_group:
        return f"Job {job.name} is an array, whose tasks have nodes. Name one of its tasks."
    if job.state.is_terminal:
        return f"Job {job.name} has no placement: it is {job.state} and had no nodes."
    return f"Job {job.name} has no placement yet: it is {job.state}. Wait until it runs."


def _make_placement(
    job: Job, reported: ReportedPlacement | None, tree: TopologyTree | None
) -> JobPlacement:
    given = job.nodes if reported is None else reported.given
    order = job.nodes if reported is None else reported.order
    leaves = {}
    if tree is not None:
        leaves = {name: leaf for name in given if (leaf := tree.find_leaf(name)) is not None}
    costs = None if tree is None or not leaves else _compute_costs(job, tree, given, order)
    crossings: PlacementCosts | None
    uplink: PlacementCosts | None
    if costs is not None:
        crossings = PlacementCosts(**{name: cost.crossings for name, cost in costs.items()})
        uplink = PlacementCosts(**{name: cost.busiest_uplink for name, cost in costs.items()})
    else:
        crossings = _to_reported_costs(None if reported is None else reported.crossings)
        uplink = _to_reported_costs(None if reported is None else reported.busiest_uplink)
    return JobPlacement(
        given=given,
        order=order,
        crossings=crossings,
        busiest_uplink=uplink,
        switches=() if tree is None else _list_switches(tree, set(leaves.values())),
        leaves=leaves,
        bindings=() if reported is None else reported.bindings,
        reason=_describe_reason(reported),
    )


def _compute_costs(
    job: Job, tree: TopologyTree, given: Sequence[str], order: Sequence[str]
) -> dict[str, Cost]:
    mesh: tuple[int, ...] = ()
    per_node = 1
    if job.spec.placement.mesh is not None and job.spec.distributed is not None:
        mesh, per_node = job.spec.placement.mesh.sizes, job.spec.distributed.ranks_per_node
    count = len(given)
    edges = device_mesh_order.count_edges(mesh, count, per_node) if mesh else build_ring(count)
    network = Network(tree, given)
    position = {name: index for index, name in enumerate(given)}
    costs = [
        network.compute_cost(range(count), edges),
        network.compute_cost([position[name] for name in order], edges),
    ]
    best = min(costs)
    if not mesh or count <= MOST_IMPROVED:
        found = order_ranks(tree, given, mesh=mesh, ranks_per_node=per_node)
        best = min(best, found.chosen)
    return {"given": costs[0], "chosen": costs[1], "best": best}


def _to_reported_costs(pair: ReportedCosts | None) -> PlacementCosts | None:
    """Return the costs as the agent has computed them. They are used if the platform knows no
    topology. None: the agent has reported none.
    """
    if pair is None:
        return None
    best = min(pair.given, pair.chosen)
    return PlacementCosts(given=pair.given, chosen=pair.chosen, best=best)


def _list_switches(tree: TopologyTree, leaves: set[str]) -> tuple[PlacementSwitch, ...]:
    above = {name for leaf in leaves for name in tree.find_path(leaf)}
    return tuple(
        PlacementSwitch(name=name, parent=tree.parents.get(name))
        for name in tree.switches
        if name in above
    )


def _describe_reason(reported: ReportedPlacement | None) -> str:
    if reported is None:
        return "The job has reported no order of its nodes."
    # The text comes from a process of the user: no more than a line is taken from it.
    printable = "".join(c if c.isprintable() else " " for c in reported.reason)
    sentence = " ".join(printable.split())
    return f"{sentence[:1].upper()}{sentence[1:]}."
