"""The store's part about notifications, their deliveries, and what sessions are seen to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from aitne.core.models.job import Job
from aitne.core.models.notification import (
    Addressee,
    Delivery,
    DeliveryState,
    NewDelivery,
    Notification,
    NotificationChoices,
    NotificationKind,
    SessionActivity,
    Told,
    Webhook,
)
from aitne.core.ports.store.records import Check, Page


class NotificationStore(Protocol):
    """Inboxes, choices, webhooks, deliveries, activity."""

    async def cursor(self, name: str) -> int:
        """The last event that the named reader is done with; 0 before its first."""
        ...

    async def tell(
        self, told: Sequence[Told], *, cursor: str, since: int, until: int, epoch: int
    ) -> int:
        """Write notifications and deliveries, and move the cursor from ``since`` to ``until``: all in
        one transaction, so that each event is told of once. How many notifications were new.

        Each new one appends ``notification.added``. People who are gone are left out.

        Raises ``StaleEpoch``, and ``Conflict`` if the cursor is not at ``since``."""
        ...

    async def inbox(
        self, owner: str, *, unread: bool = False, cursor: str | None = None, limit: int = 50
    ) -> Page[Notification]:
        """Newest first; ``total`` counts all that match."""
        ...

    async def unread(self, owner: str) -> int:
        """How many the owner has not read."""
        ...

    async def mark_read(self, owner: str, ids: Sequence[int] | None, now: datetime) -> int:
        """Those of the owner's, or all; how many are unread afterwards. Appends
        ``notification.read`` for the owner's other pages if anything changed."""
        ...

    async def choices(self, owner: str) -> NotificationChoices:
        """What the person has chosen; nothing if they never did."""
        ...

    async def choices_of_many(self, owners: Sequence[str]) -> Mapping[str, NotificationChoices]:
        """Of those who have chosen something."""
        ...

    async def save_choices(
        self,
        owner: str,
        choices: NotificationChoices,
        *,
        mail: str | None = None,
        check: Check[tuple[str | None, NotificationChoices]] = None,
    ) -> None:
        """Replace them, and the address if one is given; an empty ``mail`` is none.

        ``check`` is told the address and the choices. Raises ``NotFound``: there is no such user."""
        ...

    async def people(self, names: Sequence[str] | None = None) -> Sequence[Addressee]:
        """Everybody, or those of these names, who is not disabled."""
        ...

    async def last_told(self, kind: NotificationKind, path: str) -> datetime | None:
        """When anybody was told last of what lies at ``path``."""
        ...

    async def members_of(self, project: str) -> Sequence[str]:
        """The names of a project's members."""
        ...

    async def create_webhook(self, webhook: Webhook, *, most: int) -> None:
        """Raises ``Conflict``: the owner has ``most`` already; ``NotFound``: no such owner."""
        ...

    async def webhooks(self, owner: str) -> Sequence[Webhook]:
        """The owner's, oldest first."""
        ...

    async def webhooks_of_many(self, owners: Sequence[str]) -> Sequence[Webhook]:
        """Those of these owners that are not disabled."""
        ...

    async def webhook(self, webhook_id: str) -> Webhook:
        """Raises ``NotFound``."""
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
        """Change what is given. To enable one forgets its failures. Raises ``NotFound``."""
        ...

    async def delete_webhook(self, webhook_id: str) -> None:
        """With what still waits for it and its log. Raises ``NotFound``."""
        ...

    async def add_delivery(self, new: NewDelivery) -> Delivery:
        """Something to send that no event asked for: a test. Raises ``NotFound``: no such user."""
        ...

    async def deliveries(
        self, *, owner: str, channel: str, target: str, limit: int
    ) -> Sequence[Delivery]:
        """The newest first."""
        ...

    async def lease_deliveries(
        self, *, epoch: int, limit: int, lease_s: float, most_of_one: int | None = None
    ) -> Sequence[Delivery]:
        """What is due, taken for ``lease_s``; under another epoch a lease is void. Its owners take
        turns, and with ``most_of_one`` no owner has more than so many leased.

        Raises ``StaleEpoch``."""
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
        """Note how a try went. WAITING: again after ``delay_s``. With ``disable_after``, a webhook
        that had so many deliveries given up in a row is disabled, with the event
        ``webhook.disabled``; True if this did it. Without it this one does not count. Raises
        ``StaleEpoch``."""
        ...

    async def prune_notifications(self, before: datetime) -> None:
        """Delete older notifications, and deliveries that are over."""
        ...

    async def note_activity(
        self, job_id: UUID, *, active_at: datetime, seen_at: datetime, tolerance_s: float = 0.0
    ) -> SessionActivity | None:
        """What an agent saw. While nobody was warned, what is less than ``tolerance_s`` later than
        what is known is not written. A later ``active_at`` takes warnings back, with the event
        ``session.active`` if there were any. None: there is no such job."""
        ...

    async def activities(self) -> Sequence[SessionActivity]:
        """Of all sessions that have not ended."""
        ...

    async def warn_idle(
        self, job_id: UUID, *, warned: int, at: datetime, data: dict[str, Any], epoch: int
    ) -> bool:
        """Note the ``warned``-th warning with the event ``session.idle``; False: it was given before,
        or somebody has worked meanwhile. Raises ``StaleEpoch``."""
        ...

    async def idle_gpu_jobs(self) -> Sequence[Job]:
        """The live jobs whose GPUs are idle, longest first."""
        ...
