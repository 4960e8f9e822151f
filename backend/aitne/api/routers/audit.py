"""Routes of the audit log; administrators only."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from aitne.api.admin_views import AuditExportQuery, AuditPage, AuditQuery
from aitne.api.dependencies import Admin, PlatformDep
from aitne.api.routers import V1
from aitne.api.streaming import StreamedResponse, get_open_streams
from aitne.core.models.audit import AuditCheck

router = APIRouter(prefix=f"{V1}/admin", tags=["admin"])
_TYPES = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}


@router.get("/audit")
async def list_audit(
    where: Annotated[AuditQuery, Query()], actor: Admin, platform: PlatformDep
) -> AuditPage:
    """List entries of the audit log, newest first."""
    page = await platform.audit.list(
        actor, where.to_filter(), cursor=where.cursor, limit=where.limit
    )
    return AuditPage(
        items=list(page.items),
        next_cursor=page.next_cursor,
        total=page.total,
        job_names=await platform.audit.job_names(actor, page.items),
    )


@router.get(
    "/audit/export",
    response_class=Response,
    responses={
        200: {
            "description": "The entries, oldest first.",
            "content": {
                "application/jsonl": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            },
        }
    },
)
async def export_audit(
    where: Annotated[AuditExportQuery, Query()],
    request: Request,
    actor: Admin,
    platform: PlatformDep,
) -> Response:
    """Export the audit log as a file, oldest first; complete, or only the entries that match the
    filter."""
    rows = await platform.audit.export(actor, where.to_filter(), as_csv=where.format == "csv")
    return StreamedResponse(
        rows,
        get_open_streams(request.app),
        actor,
        media_type=_TYPES[where.format],
        headers={"Content-Disposition": f'attachment; filename="aitne-audit.{where.format}"'},
    )


@router.get("/audit/check")
async def check_audit(actor: Admin, platform: PlatformDep) -> AuditCheck:
    """Check the chain of hashes, which shows whether an entry was changed, removed or inserted."""
    return await platform.audit.check(actor)
