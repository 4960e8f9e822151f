"""Maintenance: no new jobs start, running jobs continue, and all users are informed.

Jobs submitted meanwhile are accepted and held: the controller submits them to the scheduler when
the maintenance is over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from pydantic import Field

from aitne.core.errors import InvalidInput
from aitne.core.models.announcement import Maintenance
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.store.announcements_and_maintenance import AdministrationStore
from aitne.store.store_part import Check


class Phase(StrEnum):
    """Phase of a maintenance: off (there is none), scheduled, or on."""

    OFF = "off"
    SCHEDULED = "scheduled"
    ON = "on"


class MaintenanceView(Frozen):
    """The present or next maintenance as users see it: its phase, its period and its message."""

    phase: Phase = Field(description="`on`: new jobs are held until the end.")
    starts_at: UtcTime | None = Field(None, description="Start of the maintenance.")
    ends_at: UtcTime | None = Field(
        None, description="Planned end; null: an administrator ends it."
    )
    message: str = Field("", description="Reason, as the administrator entered it.")
    created_by: str | None = Field(None, description="Administrator who set it.")
    created_at: UtcTime | None = Field(None, description="When it was set.")


class MaintenanceService:
    """Service for maintenance: administrators set it, and any user may read it."""

    def __init__(self, store: AdministrationStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    async def status(self, actor: Actor) -> MaintenanceView:
        """Return the present or scheduled maintenance.

        Raises ``NotAllowed`` if the token does not permit reading.
        """
        require_permission(PolicyAction.CLUSTER_READ, actor, "page", "maintenance")
        return self._make_view(await self._store.find_maintenance())

    async def schedule(
        self,
        actor: Actor,
        *,
        starts_at: datetime | None,
        ends_at: datetime | None,
        message: str,
        check: Check[MaintenanceView] = None,
    ) -> MaintenanceView:
        """Begin a maintenance at ``starts_at`` (None: now); it replaces one that was set before.

        Raises:
            NotAllowed: the actor is not an administrator.
            InvalidInput: the maintenance would end before it starts, or is over already.
        """
        require_permission(PolicyAction.PLATFORM_ADMINISTER, actor, "page", "maintenance")
        now = self._clock()
        window = Maintenance(
            starts_at=starts_at or now,
            ends_at=ends_at,
            message=" ".join(message.split()),
            created_at=now,
            created_by=actor.name,
        )
        if ends_at is not None and ends_at <= max(window.starts_at, now):
            raise InvalidInput.field(
                "ends_at",
                "it must be later than the start and than now",
                value=ends_at.isoformat(),
                allowed=f"after {max(window.starts_at, now).isoformat()}",
            )
        await self._store.set_maintenance(window, check=self._convert_check(check))
        return self._make_view(window)

    async def end(self, actor: Actor, *, check: Check[MaintenanceView] = None) -> MaintenanceView:
        """End the maintenance or discard a scheduled one; does nothing if there is none.

        Raises ``NotAllowed`` if the actor is not an administrator.
        """
        require_permission(PolicyAction.PLATFORM_ADMINISTER, actor, "page", "maintenance")
        await self._store.set_maintenance(None, check=self._convert_check(check))
        return self._make_view(None)

    def _convert_check(self, check: Check[MaintenanceView]) -> Check[Maintenance | None]:
        return None if check is None else lambda window: check(self._make_view(window))

    def _make_view(self, window: Maintenance | None) -> MaintenanceView:
        now = self._clock()
        if window is None or window.is_over(now):
            return MaintenanceView(phase=Phase.OFF)
        phase = Phase.ON if window.is_in_progress(now) else Phase.SCHEDULED
        return MaintenanceView(phase=phase, **window.model_dump())


def find_hold_reason(window: Maintenance | None, now: datetime) -> str | None:
    """Return why a job that is submitted now would have to wait until a maintenance ends; None if
    it would not.
    """
    if window is None or not window.is_in_progress(now):
        return None
    until = "it is over" if window.ends_at is None else _clock_time(window.ends_at)
    return f"Maintenance{_format_message(window)}: new jobs are held until {until}."


def find_overlap_warning(window: Maintenance | None, now: datetime, lasts_s: int) -> str | None:
    """Return a warning if a job that starts now and runs for ``lasts_s`` seconds would still be
    running at the beginning of the maintenance ``window``; otherwise None.
    """
    if window is None or window.starts_at <= now or window.is_over(now):
        return None
    if now + timedelta(seconds=lasts_s) <= window.starts_at:
        return None
    return (
        f"A maintenance{_format_message(window)} begins {_clock_time(window.starts_at)}, within the time limit of this "
        "job. Running jobs are not interrupted if the administrators can avoid it; jobs that have not "
        "started by then are held until it is over. With a shorter time limit the job may end before."
    )


def _format_message(window: Maintenance) -> str:
    return f" ({window.message.rstrip('.')})" if window.message else ""


def _clock_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
