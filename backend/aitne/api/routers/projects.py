"""Routes of projects: life cycle, members and limits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from aitne.api.conditional_requests import TagsDep
from aitne.api.dependencies import Admin, PlatformDep, Reader, Writer
from aitne.api.job_query_views import ProjectList, ProjectQuery
from aitne.api.project_views import (
    Approval,
    Closing,
    MemberChanges,
    MembershipList,
    NewEnd,
    NewExtensionRequest,
    NewProject,
    ProjectChanges,
    Refusal,
    SyncRequest,
)
from aitne.api.routers import V1
from aitne.core.models.base import ProjectName, UserName
from aitne.core.models.limits import Limits
from aitne.core.models.project import Budget, Project, Retention
from aitne.services.projects.account_sync import SyncReport
from aitne.services.projects.projects import Member, ProjectLimits

router = APIRouter(prefix=V1)
Name = Annotated[ProjectName, Path(description="The project's name.")]
MemberName = Annotated[UserName, Path(description="A login name.")]


@router.get("/projects", tags=["projects"])
async def list_projects(
    where: Annotated[ProjectQuery, Query()], actor: Reader, platform: PlatformDep
) -> ProjectList:
    """List your projects; administrators see all."""
    page = await platform.users.projects(
        actor, where.to_search(), cursor=where.cursor, limit=where.limit
    )
    return ProjectList(items=list(page.items), next_cursor=page.next_cursor, total=page.total)


@router.post("/projects", status_code=201, tags=["projects"])
async def create_project(
    body: NewProject, actor: Writer, platform: PlatformDep, response: Response
) -> Project:
    """Create a project, or request one if administrators must approve projects."""
    project = await platform.project_life.create(
        actor,
        name=body.name,
        title=body.title,
        description=body.description,
        reason=body.reason,
        limits=body.limits,
        budget=body.budget,
        expires_at=body.expires_at,
        manager=body.manager,
    )
    response.headers["Location"] = f"{V1}/projects/{project.name}"
    return project


@router.get("/projects/{name}", tags=["projects"])
async def get_project(name: Name, actor: Reader, platform: PlatformDep, tags: TagsDep) -> Project:
    """Return one of your projects, or any project as an administrator."""
    return tags.set_etag(await platform.projects.get(actor, name))


@router.patch("/projects/{name}", tags=["projects"])
async def update_project(
    name: Name, body: ProjectChanges, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Change the title or description of a project; managers only."""
    return tags.set_etag(
        await platform.project_life.update_description(
            actor, name, title=body.title, description=body.description, check=tags.check_if_match
        )
    )


@router.post("/projects/{name}/approve", tags=["projects"])
async def approve_project(
    name: Name, body: Approval, actor: Admin, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Approve a requested project; administrators only. If the scheduler has accounts, the
    project's is created by the next sync."""
    return tags.set_etag(
        await platform.project_life.approve(
            actor, name, expires_at=body.expires_at, budget=body.budget, limits=body.limits
        )
    )


@router.post("/projects/{name}/decline", tags=["projects"])
async def decline_project(
    name: Name, body: Refusal, actor: Admin, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Decline a requested project, or a requested later end; administrators only."""
    return tags.set_etag(await platform.project_life.decline(actor, name, body.reason))


@router.post("/projects/{name}/close", tags=["projects"])
async def close_project(
    name: Name, body: Closing, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Close a project for new jobs; managers only. Pending and running jobs continue."""
    return tags.set_etag(await platform.project_life.close(actor, name, body.reason))


@router.post("/projects/{name}/reopen", tags=["projects"])
async def reopen_project(
    name: Name, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Reopen a closed project; managers only, or administrators only if an administrator closed
    it."""
    return tags.set_etag(await platform.project_life.reopen(actor, name))


@router.put("/projects/{name}/end", tags=["projects"])
async def set_project_end(
    name: Name, body: NewEnd, actor: Admin, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Set the end of the project; administrators only. An expired project becomes active again."""
    return tags.set_etag(
        await platform.project_life.set_end(actor, name, body.expires_at, check=tags.check_if_match)
    )


@router.post("/projects/{name}/extension", tags=["projects"])
async def ask_for_time(
    name: Name, body: NewExtensionRequest, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Request a later end of the project; managers only."""
    return tags.set_etag(
        await platform.project_life.request_extension(actor, name, body.until, body.reason)
    )


@router.put("/projects/{name}/budget", tags=["projects"])
async def set_project_budget(
    name: Name, body: Budget, actor: Admin, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Set the hours that the project may use; administrators only. An empty budget removes the
    limit."""
    return tags.set_etag(
        await platform.project_life.set_budget(actor, name, body, check=tags.check_if_match)
    )


@router.put("/projects/{name}/retention", tags=["projects"])
async def set_project_retention(
    name: Name, body: Retention, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> Project:
    """Set how long ended jobs of the project are kept, within what the site permits; managers only.
    An empty value means the site's own."""
    return tags.set_etag(
        await platform.project_life.set_retention(actor, name, body, check=tags.check_if_match)
    )


@router.get("/projects/{name}/members", tags=["projects"])
async def list_members(name: Name, actor: Reader, platform: PlatformDep) -> MembershipList:
    """List the members of the project, with the role and the limits of each."""
    return MembershipList(items=list(await platform.projects.members(actor, name)))


@router.put("/projects/{name}/members/{user}", tags=["projects"])
async def put_member(
    name: Name, user: MemberName, body: MemberChanges, actor: Writer, platform: PlatformDep
) -> Member:
    """Add a member, or change a member's role and limits; managers only."""
    return await platform.projects.set_member(
        actor, name, user, limits=body.limits, role=body.role, default=body.default
    )


@router.delete("/projects/{name}/members/{user}", status_code=204, tags=["projects"])
async def remove_member(name: Name, user: MemberName, actor: Writer, platform: PlatformDep) -> None:
    """Remove a member; managers only, but members may remove themselves. The member's jobs
    continue."""
    await platform.projects.remove_member(actor, name, user)


@router.get("/projects/{name}/limits", tags=["projects"])
async def get_limits(
    name: Name, actor: Reader, platform: PlatformDep, tags: TagsDep
) -> ProjectLimits:
    """Return the limits of the project and its members, and their use by user."""
    limits = await platform.projects.limits(actor, name)
    tags.set_etag(limits.granted)
    return limits


@router.put("/projects/{name}/limits", tags=["projects"])
async def set_limits(
    name: Name, body: Limits, actor: Admin, platform: PlatformDep, tags: TagsDep
) -> ProjectLimits:
    """Replace the limits that the project is granted; administrators only. The scheduler applies
    them at once or, if its accounting holds them, after the next sync."""
    limits = await platform.projects.set_limits(actor, name, body, check=tags.check_if_match)
    tags.set_etag(limits.granted)
    return limits


@router.put("/projects/{name}/limits/own", tags=["projects"])
async def set_own_limits(
    name: Name, body: Limits, actor: Writer, platform: PlatformDep
) -> ProjectLimits:
    """Set limits of the project that are stricter than those it is granted; managers only."""
    return await platform.projects.set_own_limits(actor, name, body)


@router.get("/admin/sync", tags=["admin"])
async def compare_accounts(actor: Admin, platform: PlatformDep) -> SyncReport:
    """Return the differences between the projects and Slurm's accounts. Changes nothing."""
    return await platform.sync.compare(actor)


@router.post("/admin/sync", tags=["admin"])
async def sync_accounts(body: SyncRequest, actor: Admin, platform: PlatformDep) -> SyncReport:
    """Apply differences to Slurm's accounts, if they are still exactly those that were shown."""
    return await platform.sync.apply(actor, body.digest)
