"""Announcements: administrators create them, the users concerned see and dismiss them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from aitne.core.errors import Conflict, InvalidInput, NotFound
from aitne.core.models.announcement import Announcement, Severity
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, refuse_impersonation, require_permission
from aitne.store.announcements_and_maintenance import AdministrationStore
from aitne.store.paging import Page
from aitne.store.store_part import Check


class AnnouncementService:
    """Service for announcements: administrators write them, and each is shown to users for a
    period.
    """

    def __init__(self, store: AdministrationStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def list_current(self, actor: Actor) -> Sequence[tuple[Announcement, bool]]:
        """List the announcements that concern the actor now, sorted by severity (most severe
        first), then by time (newest first). Each has a flag that says whether the actor has
        dismissed it.

        Raises ``NotAllowed`` if the token does not permit reading.
        """
        require_permission(PolicyAction.CLUSTER_READ, actor, "page", "announcements")
        now, announcements = self._clock(), list[Announcement]()
        cursor: str | None = None
        while True:
            page = await self._store.list_announcements(current_at=now, cursor=cursor)
            announcements += [
                announcement for announcement in page.items if _is_addressed_to(announcement, actor)
            ]
            if (cursor := page.next_cursor) is None:
                break
        away = await self._store.list_dismissed_announcements(actor.name)
        announcements.sort(key=lambda announcement: _WEIGHT[announcement.severity])
        return [
            (announcement, announcement.id in away and _is_dismissible(announcement))
            for announcement in announcements
        ]

    async def list_all(self, actor: Actor, *, cursor: str | None, limit: int) -> Page[Announcement]:
        """List all announcements, including past and future ones.

        Raises ``NotAllowed`` if the actor is not an administrator.
        """
        _require_administrator(actor)
        return await self._store.list_announcements(current_at=None, cursor=cursor, limit=limit)

    async def get(self, actor: Actor, announcement_id: str) -> Announcement:
        """Return the announcement with this ID.

        Raises ``NotFound``, also if it is not shown to the actor.
        """
        announcement = await self._store.get_announcement(announcement_id)
        shown = announcement.is_current(self._clock()) and _is_addressed_to(announcement, actor)
        if not (shown or actor.is_admin):
            raise NotFound("announcement", announcement_id)
        return announcement

    async def create(
        self,
        actor: Actor,
        *,
        text: str,
        severity: Severity,
        projects: Sequence[str],
        starts_at: datetime | None,
        ends_at: datetime | None,
    ) -> Announcement:
        """Create an announcement; without ``starts_at`` it begins now, without ``ends_at`` it does
        not end by itself.

        Raises:
            NotAllowed: the actor is not an administrator.
            InvalidInput: the announcement ends before it starts, or its text is empty.
        """
        _require_administrator(actor)
        now = self._clock()
        made = Announcement(
            id=secrets.token_hex(8),
            severity=severity,
            text=_parse_text(text),
            projects=tuple(sorted(set(projects))),
            starts_at=starts_at or now,
            ends_at=ends_at,
            created_at=now,
            created_by=actor.name,
            updated_at=now,
        )
        _check_period(made)
        await self._store.save_announcement(made)
        return made

    async def update(
        self,
        actor: Actor,
        announcement_id: str,
        changes: dict[str, object],
        *,
        check: Check[Announcement] = None,
    ) -> Announcement:
        """Change the fields that ``changes`` contains to the values given there.

        Raises the same errors as ``create``, and ``NotFound``.
        """
        _require_administrator(actor)
        old = await self._store.get_announcement(announcement_id)
        fields = old.model_dump() | changes | {"updated_at": self._clock()}
        fields["text"] = _parse_text(str(fields["text"]))
        changed = Announcement.model_validate(fields)
        _check_period(changed)
        await self._store.save_announcement(changed, check=check)
        return changed

    async def delete(
        self, actor: Actor, announcement_id: str, *, check: Check[Announcement] = None
    ) -> None:
        """Delete an announcement.

        Raises ``NotFound``, and ``NotAllowed`` if the actor is not an administrator.
        """
        _require_administrator(actor)
        await self._store.delete_announcement(announcement_id, check=check)

    async def dismiss(self, actor: Actor, announcement_id: str) -> None:
        """Dismiss the announcement for this actor.

        Raises:
            NotFound: no such announcement is shown to the actor.
            Conflict: the announcement is critical, so it cannot be dismissed.
        """
        refuse_impersonation(actor, "dismiss announcements")
        announcement = await self.get(actor, announcement_id)
        if not _is_dismissible(announcement):
            raise Conflict(
                "This announcement is critical, so it cannot be dismissed before it ends."
            )
        await self._store.dismiss_announcement(announcement_id, actor.name)


_WEIGHT = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def _require_administrator(actor: Actor) -> None:
    require_permission(PolicyAction.PLATFORM_ADMINISTER, actor, "page", "announcements")


def _is_addressed_to(announcement: Announcement, actor: Actor) -> bool:
    return announcement.is_addressed_to(actor.projects)


def _is_dismissible(announcement: Announcement) -> bool:
    return announcement.severity is not Severity.CRITICAL


def _parse_text(text: str) -> str:
    plain = text.strip()
    if not plain:
        raise InvalidInput.field("text", "the text is empty", value=text)
    return plain


def _check_period(announcement: Announcement) -> None:
    ends = announcement.ends_at
    if ends is not None and ends <= announcement.starts_at:
        raise InvalidInput.field(
            "ends_at",
            "it would end before it starts",
            value=ends.isoformat(),
            allowed=f"after {announcement.starts_at.isoformat()}",
        )
