"""Routes of usage: hours used and left, and pending jobs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from aitne.api.dependencies import PlatformDep, Reader
from aitne.api.routers import V1
from aitne.api.routers.projects import Name
from aitne.services.projects.project_balance import Balance
from aitne.services.projects.project_report import ProjectReport, WaitingPage
from aitne.services.projects.usage import UsageReport

router = APIRouter(prefix=V1, tags=["projects"])
Month = Annotated[
    str | None,
    Query(
        max_length=7,
        description="Month in UTC, such as 2026-03; omitted: the current one so far.",
        examples=["2026-03"],
    ),
]
Since = Annotated[
    str | None,
    Query(max_length=7, description="The first of several months; omitted: `month` alone."),
]
Cursor = Annotated[
    str | None, Query(max_length=500, description="next_cursor of the previous page.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="Maximum number on a page.")]
CSV = "text/csv"
_CSV_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {CSV: {"schema": {"type": "string"}}}}
}


@router.get("/projects/{name}/usage")
async def project_usage(
    name: Name, actor: Reader, platform: PlatformDep, month: Month = None
) -> UsageReport:
    """Return the usage of each user's jobs in the project for a month. GPU-hours count each GPU of
    a job."""
    return await platform.usage.report(actor, name, month)


@router.get("/projects/{name}/usage.csv", response_class=Response, responses=_CSV_TEXT)
async def project_usage_csv(
    name: Name,
    actor: Reader,
    platform: PlatformDep,
    month: Month = None,
    since: Since = None,
) -> Response:
    """Return usage of the project as CSV (RFC 4180), with a column for each type of GPU."""
    reports = await platform.usage.reports(actor, name, since, month)
    span = "-".join(dict.fromkeys((reports[0].month, reports[-1].month)))
    return Response(
        usage_csv(reports),
        media_type=CSV,
        headers={"Content-Disposition": f'attachment; filename="usage-{name}-{span}.csv"'},
    )


@router.get("/projects/{name}/balance")
async def project_balance(name: Name, actor: Reader, platform: PlatformDep) -> Balance:
    """Return the budget of the project with the hours used and left, as of a few minutes ago."""
    return await platform.usage.balance(actor, name)


@router.get("/projects/{name}/report")
async def project_report(
    name: Name, actor: Reader, platform: PlatformDep, month: Month = None
) -> ProjectReport:
    """Return the usage report of a month: usage by member and type of GPU, waiting times, outcomes,
    the balance."""
    return await platform.reports.report(actor, name, month)


@router.get("/projects/{name}/waiting")
async def project_waiting(
    name: Name,
    actor: Reader,
    platform: PlatformDep,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> WaitingPage:
    """List the project's pending jobs with owner, reason and expected start."""
    return await platform.reports.list_waiting_jobs(actor, name, cursor=cursor, limit=limit)


@router.get("/usage")
async def usage(actor: Reader, platform: PlatformDep, month: Month = None) -> UsageReport:
    """Return the usage of all your projects in a month; administrators get all projects."""
    return await platform.usage.report(actor, None, month)


def usage_csv(reports: Sequence[UsageReport]) -> str:
    """Return the usage reports of several months as one CSV text, month after month, with one
    header line.
    """
    types = sorted(
        {kind for report in reports for row in report.rows for kind in row.gpu_hours_by_type}
    )
    text = io.StringIO()
    lines = csv.writer(text)
    heads = ("month", "project", "user", "jobs", "cpu_hours", "gpu_hours")
    lines.writerow((*heads, *(f"gpu_hours_{kind}" for kind in types), "energy_j"))
    for report in reports:
        for row in report.rows:
            by_type = (row.gpu_hours_by_type.get(kind, 0) for kind in types)
            figures = (row.jobs, row.cpu_hours, row.gpu_hours, *by_type, row.energy_j)
            lines.writerow((report.month, row.project, row.user, *figures))
    return text.getvalue()
