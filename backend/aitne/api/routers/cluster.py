"""What can be launched, and where it would run."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path

from aitne.api.deps import PlatformDep, Reader
from aitne.api.routers import V1
from aitne.api.views import NodeList, TemplateList, TemplateProblem
from aitne.core.models.template import Template

router = APIRouter(prefix=V1)

_STALE_POLLS = 5
_STALE_AT_LEAST_S = 15.0


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


@router.get("/cluster/nodes", tags=["cluster"])
async def list_nodes(actor: Reader, platform: PlatformDep) -> NodeList:
    """The nodes as the scheduler last described them."""
    nodes = list(await platform.store.nodes())
    as_of = max((node.seen_at for node in nodes), default=None)
    patience_s = max(_STALE_AT_LEAST_S, _STALE_POLLS * platform.settings.poll_interval_s)
    stale = as_of is None or platform.clock() - as_of > timedelta(seconds=patience_s)
    return NodeList(items=nodes, as_of=as_of, stale=stale)
