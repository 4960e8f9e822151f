"""Projects: members, limits, and who has used how much."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from aitne.api.deps import Admin, PlatformDep, Reader
from aitne.api.project_views import (
    MemberChanges,
    MembershipList,
    NewProject,
    ProjectChanges,
    SyncRequest,
)
from aitne.api.routers import V1
from aitne.api.views import ProjectList
from aitne.core.models.base import ProjectName, UserName
from aitne.core.models.limits import Limits, Membership
from aitne.core.models.user import Project
from aitne.services.projects import ProjectLimits
from aitne.services.sync import SyncReport
from aitne.services.usage import UsageReport

router = APIRouter(prefix=V1)
Name = Annotated[ProjectName, Path(description="The project's name.")]
Member = Annotated[UserName, Path(description="A login name.")]
Month = Annotated[
    str | None,
    Query(max_length=7, description="Such as 2026-03, in UTC; omitted: this month so far."),
]


@router.get("/projects", tags=["projects"])
async def list_projects(actor: Reader, platform: PlatformDep) -> ProjectList:
    """Your projects, or all for administrators."""
    return ProjectList(items=list(await platform.users.projects(actor)))


@router.post("/projects", status_code=201, tags=["projects"])
async def create_project(
    body: NewProject, actor: Admin, platform: PlatformDep, response: Response
) -> Project:
    """Make a project, for administrators. Slurm has it after the next sync."""
    project = await platform.projects.create(
        actor, name=body.name, title=body.title, limits=body.limits
    )
    response.headers["Location"] = f"{V1}/projects/{project.name}"
    return project


@router.get("/projects/{name}", tags=["projects"])
async def get_project(name: Name, actor: Reader, platform: PlatformDep) -> Project:
    """One project of yours, or any for administrators."""
    return await platform.projects.get(actor, name)


@router.patch("/projects/{name}", tags=["projects"])
async def update_project(
    name: Name, body: ProjectChanges, actor: Admin, platform: PlatformDep
) -> Project:
    """Give a project another title, for administrators."""
    return await platform.projects.rename(actor, name, body.title)


@router.get("/projects/{name}/members", tags=["projects"])
async def list_members(name: Name, actor: Reader, platform: PlatformDep) -> MembershipList:
    """Who works in the project, with the limits of each."""
    return MembershipList(items=list(await platform.projects.members(actor, name)))


@router.put("/projects/{name}/members/{user}", tags=["projects"])
async def put_member(
    name: Name, user: Member, body: MemberChanges, actor: Admin, platform: PlatformDep
) -> Membership:
    """Make somebody a member, or change a member's limits, for administrators."""
    return await platform.projects.put_member(
        actor, name, user, limits=body.limits, default=body.default
    )


@router.delete("/projects/{name}/members/{user}", status_code=204, tags=["projects"])
async def remove_member(name: Name, user: Member, actor: Admin, platform: PlatformDep) -> None:
    """End a membership, for administrators. Jobs go on."""
    await platform.projects.remove_member(actor, name, user)


@router.get("/projects/{name}/limits", tags=["projects"])
async def get_limits(name: Name, actor: Reader, platform: PlatformDep) -> ProjectLimits:
    """What the project and its members may use, and what is in use of it by whom."""
    return await platform.projects.limits(actor, name)


@router.put("/projects/{name}/limits", tags=["projects"])
async def set_limits(
    name: Name, body: Limits, actor: Admin, platform: PlatformDep
) -> ProjectLimits:
    """Replace the project's limits, for administrators. Slurm has them after the next sync."""
    return await platform.projects.set_limits(actor, name, body)


@router.get("/projects/{name}/usage", tags=["projects"])
async def project_usage(
    name: Name, actor: Reader, platform: PlatformDep, month: Month = None
) -> UsageReport:
    """What each user's jobs of the project have used in a month. Each GPU counts."""
    return await platform.usage.report(actor, name, month)


@router.get("/usage", tags=["projects"])
async def usage(actor: Reader, platform: PlatformDep, month: Month = None) -> UsageReport:
    """The same of all your projects, or of everything for administrators."""
    return await platform.usage.report(actor, None, month)


@router.get("/admin/sync", tags=["admin"])
async def compare_accounts(actor: Admin, platform: PlatformDep) -> SyncReport:
    """What differs between the projects here and Slurm's accounts. Changes nothing."""
    return await platform.sync.compare(actor)


@router.post("/admin/sync", tags=["admin"])
async def sync_accounts(body: SyncRequest, actor: Admin, platform: PlatformDep) -> SyncReport:
    """Bring Slurm's accounts in line with the projects, exactly as it was shown."""
    return await platform.sync.apply(actor, body.digest)
