"""Part of the store for notifications, their deliveries, and the activity of sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from aitne.core.models.job import Job
from aitne.core.models.notification import (
    Delivery,
    DeliveryState,
    NewDelivery,
    NewNotification,
    Notification,
    NotificationChoices,
    NotificationKind,
    Recipient,
    SessionActivity,
    Webhook,
)
from aitne.core.ports.store.records import Check, Page


@dataclass(frozen=True, slots=True)
class DeliveryBacklog:
    """Number of deliveries of one channel in one state, and the time of the oldest."""

    channel: str
    state: DeliveryState
    count: int
    oldest: datetime


class NotificationStore(Protocol):
    """Storage of notifications, the users' choices of channels, webhooks, deliveries, and the
    activity of sessions.
    """

    async def cursor(self, name: str) -> int:
        """Return the ID of the last event that the reader ``name`` has processed; 0 if it has
        processed none.
        """
        ...

    async def tell(
        self,
        notifications: Sequence[NewNotification],
        *,
        cursor: str,
        since: int,
        until: int,
        epoch: int,
    ) -> int:
        """Store new notifications with their deliveries and move the reader's position (``cursor``
        is its name) from event ``since`` to ``until``, in one transaction, so that each event is
        processed once.

        Returns the number of notifications stored; those for users who no longer exist are omitted.
        Each one adds the event ``notification.added``. Raises ``StaleEpoch``, and ``Conflict`` if
        the position is not ``since``.
        """
        ...

    async def inbox(
        self, owner: str, *, unread: bool = False, cursor: str | None = None, limit: int = 50
    ) -> Page[Notification]:
        """List the owner's notifications, newest first; ``total`` counts all that match."""
        ...

    async def unread(self, owner: str) -> int:
        """Count the notifications that the owner has not read."""
        ...

    async def mark_read(self, owner: str, ids: Sequence[int] | None, now: datetime) -> int:
        """Mark the owner's notifications with these IDs as read (None: all); return the number that
        remain unread.

        Adds the event ``notification.read`` if anything changed, so that the owner's other browser
        pages are updated.
        """
        ...

    async def choices(self, owner: str) -> NotificationChoices:
        """Return the user's choices of channels; empty if the user has made none."""
        ...

    async def choices_of_many(self, owners: Sequence[str]) -> Mapping[str, NotificationChoices]:
        """Return the choices of channels of these users; users without choices are missing."""
        ...

    async def save_choices(
        self,
        owner: str,
        choices: NotificationChoices,
        *,
        mail: str | None = None,
        check: Check[tuple[str | None, NotificationChoices]] = None,
    ) -> None:
        """Replace the user's choices of channels and, unless ``mail`` is None, the mail address;
        ``""`` removes the address.

        ``check`` receives the stored address and choices. Raises ``NotFound`` if there is no such
        user.
        """
        ...

    async def people(self, names: Sequence[str] | None = None) -> Sequence[Recipient]:
        """Return all enabled users; with ``names``, only the enabled users that have one of these
        names.
        """
        ...

    async def last_told(self, kind: NotificationKind, path: str) -> datetime | None:
        """Return the time at which the last notification of this kind with the link ``path`` was
        created; None if there was none.
        """
        ...

    async def mark_told_read(self, kind: NotificationKind, path: str) -> None:
        """Mark all users' notifications of this kind with the link ``path`` as read, and add the
        event ``notification.read`` for each of them.
        """
        ...

    async def members_of(self, project: str) -> Sequence[str]:
        """Return the names of a project's members."""
        ...

    async def create_webhook(self, webhook: Webhook, *, most: int) -> None:
        """Store the webhook. Raises ``Conflict`` if the owner has ``most`` webhooks already,
        ``NotFound`` if there is no such owner."""
        ...

    async def webhooks(self, owner: str) -> Sequence[Webhook]:
        """List the owner's webhooks, oldest first."""
        ...

    async def webhooks_of_many(self, owners: Sequence[str]) -> Sequence[Webhook]:
        """Return the webhooks of these owners that are not disabled."""
        ...

    async def webhook(self, webhook_id: str) -> Webhook:
        """Return the webhook with this ID. Raises ``NotFound``."""
        ...

    async def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        rotate: bool = False,
        enable: bool = False,
        disable: tuple[datetime, str] | None = None,
        check: Check[Webhook] = None,
    ) -> Webhook:
        """Change the URL of the webhook, replace its secret (``rotate``), enable it, or disable it
        at a time with a reason.

        Enabling resets the count of failed deliveries. Raises ``NotFound``.
        """
        ...

    async def delete_webhook(self, webhook_id: str) -> None:
        """Delete the webhook with its pending deliveries and its history of deliveries. Raises
        ``NotFound``.
        """
        ...

    async def add_delivery(self, new: NewDelivery) -> Delivery:
        """Store a delivery that belongs to no notification: a test message.

        Raises ``NotFound`` if there is no such user.
        """
        ...

    async def deliveries(
        self, *, owner: str, channel: str, target: str, limit: int
    ) -> Sequence[Delivery]:
        """List the deliveries to one destination (``target``), newest first."""
        ...

    async def delivery_backlog(self) -> Sequence[DeliveryBacklog]:
        """Return the deliveries that wait or have failed, counted by channel and state."""
        ...

    async def lease_deliveries(
        self, *, epoch: int, limit: int, lease_s: float, max_per_owner: int | None = None
    ) -> Sequence[Delivery]:
        """Reserve up to ``limit`` due deliveries for the controller of this ``epoch``, and return
        them.

        The recipients take turns; ``max_per_owner`` is the maximum number of reserved deliveries of
        one user (None: no maximum). A reservation ends after ``lease_s`` seconds, or when another
        controller becomes the leader. Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def finish_delivery(
        self,
        delivery: Delivery,
        state: DeliveryState,
        *,
        epoch: int,
        status: int | None = None,
        error: str | None = None,
        delay_s: float = 0.0,
        disable_after: int | None = None,
    ) -> bool:
        """Store the outcome of one attempt to deliver; with the state WAITING the delivery is due
        again after ``delay_s`` seconds.

        After ``disable_after`` failed deliveries in a row the webhook is disabled, with the event
        ``webhook.disabled``; None: this delivery does not count. Returns True if this call disabled
        the webhook. Raises ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def prune_notifications(self, before: datetime) -> None:
        """Delete the notifications and the finished deliveries that were created before
        ``before``.
        """
        ...

    async def note_activity(
        self, job_id: UUID, *, active_at: datetime, seen_at: datetime, tolerance_s: float = 0.0
    ) -> SessionActivity | None:
        """Store the activity of a session at ``active_at``, which an agent reported at ``seen_at``;
        return None if there is no such job.

        Activity less than ``tolerance_s`` seconds after the stored one is not written, unless the
        user was warned. Later activity cancels warnings, with the event ``session.active`` if there
        were any.
        """
        ...

    async def activities(self) -> Sequence[SessionActivity]:
        """Return the last activity of each session that has not ended."""
        ...

    async def warn_idle(
        self, job_id: UUID, *, warned: int, at: datetime, data: dict[str, Any], epoch: int
    ) -> bool:
        """Record the warning with the number ``warned`` about an idle session, and add the event
        ``session.idle``.

        Returns False if it was recorded before or the session has been active since. Raises
        ``StaleEpoch`` if another controller is the leader.
        """
        ...

    async def idle_gpu_jobs(self) -> Sequence[Job]:
        """List the live jobs whose GPUs are idle, those with the longest idle time first."""
        ...
