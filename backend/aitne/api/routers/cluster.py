"""What can be launched, and where it would run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from aitne.api.deps import Admin, PlatformDep, Reader, WrittenClusterDep
from aitne.api.routers import V1
from aitne.api.views import Drain, NodeList, PartitionList, TemplateList, TemplateProblem
from aitne.core.models.node import Node
from aitne.core.models.template import Template

router = APIRouter(prefix=V1)


@router.get("/templates", tags=["templates"])
async def list_templates(actor: Reader, platform: PlatformDep) -> TemplateList:
    """The entries of the launch form."""
    problems = platform.templates.problems() if actor.is_admin else ()
    return TemplateList(
        items=list(platform.templates.templates()),
        problems=[
            TemplateProblem(path=each.path, line=each.line, reason=each.reason) for each in problems
        ],
    )


@router.get("/templates/{name}", tags=["templates"])
async def get_template(
    name: Annotated[str, Path(max_length=100)], actor: Reader, platform: PlatformDep
) -> Template:
    """One template with its parameters and limits."""
    return platform.templates.get(name)


@router.get("/cluster/nodes", tags=["cluster"], response_model=NodeList)
async def list_nodes(
    request: Request, actor: Reader, platform: PlatformDep, written: WrittenClusterDep
) -> Response:
    """The nodes as the scheduler last described them; 304 to an ETag that still holds."""
    return written.nodes(await platform.cluster.look()).to(request)


@router.get("/cluster/partitions", tags=["cluster"], response_model=PartitionList)
async def list_partitions(
    request: Request, actor: Reader, platform: PlatformDep, written: WrittenClusterDep
) -> Response:
    """The partitions with their limits and what their nodes have; 304 as for the nodes."""
    return written.partitions(await platform.cluster.look()).to(request)


NodeName = Annotated[str, Path(max_length=253)]


@router.post("/cluster/nodes/{name}/drain", tags=["cluster"], status_code=202)
async def drain_node(name: NodeName, body: Drain, actor: Admin, platform: PlatformDep) -> Node:
    """Give it no new work; what runs there goes on. The node as it was before."""
    return await platform.cluster.drain(actor, name, body.reason)


@router.post("/cluster/nodes/{name}/resume", tags=["cluster"], status_code=202)
async def resume_node(name: NodeName, actor: Admin, platform: PlatformDep) -> Node:
    """Let it take work again. The node as it was before."""
    return await platform.cluster.resume(actor, name)
