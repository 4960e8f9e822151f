"""Routes of announcements and of maintenance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from aitne.api.admin_views import (
    AnnouncementChanges,
    AnnouncementPage,
    AnnouncementQuery,
    AnnouncementView,
    NewAnnouncement,
    NewMaintenance,
)
from aitne.api.audit_middleware import NotesDep
from aitne.api.conditional_requests import TagsDep
from aitne.api.dependencies import Admin, PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.core.models.announcement import Announcement, Severity
from aitne.services.platform.maintenance import MaintenanceView

router = APIRouter(prefix=V1)
Id = Annotated[str, Path(max_length=32, pattern="^[0-9a-f]+$", description="An announcement's id.")]


def _make_announcement_view(
    announcement: Announcement, *, dismissed: bool = False
) -> AnnouncementView:
    return AnnouncementView(
        **dict(announcement),
        dismissed=dismissed,
        dismissible=announcement.severity is not Severity.CRITICAL,
    )


@router.get("/announcements", tags=["announcements"])
async def list_announcements(
    where: Annotated[AnnouncementQuery, Query()], actor: Reader, platform: PlatformDep
) -> AnnouncementPage:
    """List your current announcements, or all of them as an administrator."""
    if where.all:
        page = await platform.announcements.list_all(actor, cursor=where.cursor, limit=where.limit)
        return AnnouncementPage(
            items=[_make_announcement_view(announcement) for announcement in page.items],
            next_cursor=page.next_cursor,
            total=page.total,
        )
    current = await platform.announcements.list_current(actor)
    items = [
        _make_announcement_view(announcement, dismissed=away) for announcement, away in current
    ]
    return AnnouncementPage(items=items, next_cursor=None, total=len(items))


@router.post("/announcements", status_code=201, tags=["announcements"])
async def create_announcement(
    body: NewAnnouncement,
    actor: Admin,
    platform: PlatformDep,
    response: Response,
    tags: TagsDep,
    notes: NotesDep,
) -> AnnouncementView:
    """Publish an announcement; administrators only."""
    made = await platform.announcements.create(
        actor,
        text=body.text,
        severity=body.severity,
        projects=body.projects,
        starts_at=body.starts_at,
        ends_at=body.ends_at,
    )
    response.headers["Location"] = f"{V1}/announcements/{made.id}"
    notes["name"] = made.text
    return tags.set_etag(_make_announcement_view(made))


@router.get("/announcements/{announcement_id}", tags=["announcements"])
async def get_announcement(
    announcement_id: Id, actor: Reader, platform: PlatformDep, tags: TagsDep
) -> AnnouncementView:
    """Return one of your announcements, or any announcement as an administrator."""
    return tags.set_etag(
        _make_announcement_view(await platform.announcements.get(actor, announcement_id))
    )


@router.patch("/announcements/{announcement_id}", tags=["announcements"])
async def update_announcement(
    announcement_id: Id,
    body: AnnouncementChanges,
    actor: Admin,
    platform: PlatformDep,
    tags: TagsDep,
    notes: NotesDep,
) -> AnnouncementView:
    """Change an announcement; administrators only. If its text or severity changes, users who have
    dismissed it see it again."""
    changed = await platform.announcements.update(
        actor,
        announcement_id,
        body.to_changes(),
        check=lambda announcement: tags.check_if_match(_make_announcement_view(announcement)),
    )
    notes["name"] = changed.text
    return tags.set_etag(_make_announcement_view(changed))


@router.delete("/announcements/{announcement_id}", status_code=204, tags=["announcements"])
async def delete_announcement(
    announcement_id: Id, actor: Admin, platform: PlatformDep, tags: TagsDep, notes: NotesDep
) -> None:
    """Delete an announcement; administrators only."""

    def check(announcement: Announcement) -> None:
        notes["name"] = announcement.text
        tags.check_if_match(_make_announcement_view(announcement))

    await platform.announcements.delete(actor, announcement_id, check=check)


@router.put("/announcements/{announcement_id}/dismissal", status_code=204, tags=["announcements"])
async def dismiss_announcement(announcement_id: Id, actor: Writer, platform: PlatformDep) -> None:
    """Hide an announcement for yourself. Critical ones cannot be hidden."""
    await platform.announcements.dismiss(actor, announcement_id)


@router.get("/maintenance", tags=["maintenance"])
async def get_maintenance(actor: Reader, platform: PlatformDep, tags: TagsDep) -> MaintenanceView:
    """Return whether maintenance is off, scheduled or on, and when that changes."""
    return tags.set_etag(await platform.maintenance.status(actor))


@router.put("/maintenance", tags=["maintenance"])
async def set_maintenance(
    body: NewMaintenance, actor: Admin, platform: PlatformDep, tags: TagsDep
) -> MaintenanceView:
    """Start a maintenance now or later; administrators only. It replaces an earlier one.

    Running jobs continue. New jobs are accepted, and held until the end.
    """
    return tags.set_etag(
        await platform.maintenance.schedule(
            actor,
            starts_at=body.starts_at,
            ends_at=body.ends_at,
            message=body.message,
            check=tags.check_if_match,
        )
    )


@router.delete("/maintenance", tags=["maintenance"])
async def end_maintenance(actor: Admin, platform: PlatformDep, tags: TagsDep) -> MaintenanceView:
    """End the maintenance, or cancel a scheduled one; administrators only."""
    return await platform.maintenance.end(actor, check=tags.check_if_match)
