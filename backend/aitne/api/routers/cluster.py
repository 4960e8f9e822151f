"""Routes of templates, nodes, partitions and capacity."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from aitne.api.admin_views import NodeDrain, NodeDrainList, NodeEventPage, TopologyImport
from aitne.api.audit_middleware import NotesDep
from aitne.api.dependencies import Admin, PlatformDep, Reader, WrittenClusterDep
from aitne.api.job_query_views import (
    Drain,
    NodeList,
    PageQuery,
    PartitionList,
    TemplateList,
    TemplateProblem,
)
from aitne.api.routers import V1
from aitne.core.models.cluster import Node
from aitne.core.models.cluster_load_history import LoadPeriod
from aitne.core.models.cluster_topology import ClusterTopology
from aitne.core.models.template import Template
from aitne.services.cluster.gpu_availability import Capacity
from aitne.services.cluster.load_history import LoadHistory
from aitne.services.cluster.partition_queues import QueueReport

router = APIRouter(prefix=V1)


@router.get("/templates", tags=["templates"])
async def list_templates(actor: Reader, platform: PlatformDep) -> TemplateList:
    """List the job templates, which the portal offers for starting jobs and sessions."""
    problems = platform.templates.problems() if actor.is_admin else ()
    return TemplateList(
        items=list(platform.templates.templates()),
        problems=[
            TemplateProblem(path=problem.path, line=problem.line, reason=problem.reason)
            for problem in problems
        ],
    )


@router.get("/templates/{name}", tags=["templates"])
async def get_template(
    name: Annotated[str, Path(max_length=100, description="The template's name.")],
    actor: Reader,
    platform: PlatformDep,
) -> Template:
    """Return one template with its parameters and limits."""
    return platform.templates.get(name)


@router.get("/cluster/nodes", tags=["cluster"], response_model=NodeList)
async def list_nodes(
    request: Request, actor: Reader, platform: PlatformDep, written: WrittenClusterDep
) -> Response:
    """List the nodes in their last known state; the answer is 304 if the ETag in `If-None-Match` is
    current."""
    return written.get_node_page(await platform.cluster.get_snapshot()).to_response(request)


@router.get("/cluster/partitions", tags=["cluster"], response_model=PartitionList)
async def list_partitions(
    request: Request, actor: Reader, platform: PlatformDep, written: WrittenClusterDep
) -> Response:
    """List the partitions with their limits and the resources of their nodes; the answer is 304 if
    the ETag in `If-None-Match` is current."""
    return written.get_partition_page(await platform.cluster.get_snapshot()).to_response(request)


@router.get("/cluster/capacity", tags=["cluster"])
async def get_capacity(actor: Reader, platform: PlatformDep) -> Capacity:
    """Return the free and used GPUs by type, and when others become free according to time
    limits."""
    return await platform.capacity.get_capacity()


Period = Annotated[LoadPeriod, Query(description="Period up to now.")]


@router.get("/cluster/history", tags=["cluster"])
async def get_cluster_history(
    actor: Reader,
    platform: PlatformDep,
    period: Period = LoadPeriod.DAY,
    partition: Annotated[
        str | None,
        Query(max_length=100, description="Only this partition; omitted: the whole cluster."),
    ] = None,
) -> LoadHistory:
    """Return the load of the cluster or a partition over the last day, week or month: allocated
    CPUs, memory and GPUs, and pending jobs."""
    return await platform.cluster.get_load(period, partition)


@router.get("/cluster/queues", tags=["cluster"])
async def get_cluster_queues(
    actor: Reader, platform: PlatformDep, period: Period = LoadPeriod.DAY
) -> QueueReport:
    """Return the numbers of pending and running jobs of each partition, and the wait times of the
    jobs that started in the last day, week or month."""
    return await platform.cluster.queues(period)


@router.get("/cluster/topology", tags=["cluster"])
async def get_cluster_topology(actor: Reader, platform: PlatformDep) -> ClusterTopology:
    """Return the switches or blocks that connect the nodes, and the use of each node: free, used, or
    used by a job of the caller. Jobs and names of other users are not part of it."""
    return await platform.topologies.get_visible_topology(actor)


ImportName = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="Name of the imported file, such as `topology.conf`.",
    ),
]


@router.put("/admin/topology/{name}", tags=["admin"], status_code=204)
async def import_topology(
    name: ImportName, body: TopologyImport, actor: Admin, platform: PlatformDep
) -> None:
    """Import a file with switches, blocks or the description of a node, in place of an earlier one
    of that name. A file that is invalid, or contradicts another import, is refused with the line."""
    await platform.topology_imports.save(actor, name, body.content, body.node)


@router.delete("/admin/topology/{name}", tags=["admin"], status_code=204)
async def forget_topology(name: ImportName, actor: Admin, platform: PlatformDep) -> None:
    """Remove an imported topology."""
    await platform.topology_imports.remove(actor, name)


NodeName = Annotated[str, Path(max_length=253, description="The node's name.")]


@router.post("/cluster/nodes/{name}/drain", tags=["cluster"], status_code=202)
async def drain_node(
    name: NodeName, body: Drain, actor: Admin, platform: PlatformDep, notes: NotesDep
) -> Node:
    """Drain a node, so that it starts no new jobs. Running jobs continue. Returns the node as it
    was before."""
    notes["reason"] = body.reason
    return await platform.cluster.drain(actor, name, body.reason)


@router.post("/cluster/nodes/{name}/resume", tags=["cluster"], status_code=202)
async def resume_node(name: NodeName, actor: Admin, platform: PlatformDep) -> Node:
    """Resume a drained node, so that it starts jobs again. Returns the node as it was before."""
    return await platform.cluster.resume(actor, name)


@router.get("/cluster/nodes/{name}/history", tags=["cluster"])
async def node_history(
    name: NodeName, where: Annotated[PageQuery, Query()], actor: Reader, platform: PlatformDep
) -> NodeEventPage:
    """List the history of a node, newest first: outages, drains and resumes."""
    page = await platform.cluster.list_node_events(
        actor, name, cursor=where.cursor, limit=where.limit
    )
    return NodeEventPage(items=list(page.items), next_cursor=page.next_cursor, total=page.total)


@router.get("/admin/drains", tags=["admin"])
async def list_drains(actor: Admin, platform: PlatformDep) -> NodeDrainList:
    """List the last drain of each node, with actor, time and reason."""
    drains = await platform.cluster.drains(actor)
    return NodeDrainList(
        items=[NodeDrain(node=name, **dict(drain)) for name, drain in sorted(drains.items())]
    )
