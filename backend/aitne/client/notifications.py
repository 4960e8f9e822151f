"""Operations on the user's notifications, their settings, and webhooks."""

from __future__ import annotations

from aitne.client.api_session import quote_segment
from aitne.client.deprecated_names import resolve_deprecated_limit, warn_renamed
from aitne.client.record_base import Record
from aitne.client.records import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from aitne.client.api_session import ApiSession


class NotificationRecord(Record):
    """One notification; ``read_at`` is None while it is unread."""

    id: int
    """Number of the notification; newer notifications have higher numbers."""
    kind: str
    """Kind of the event, such as ``job_finished``."""
    level: str
    title: str
    text: str
    job_id: str | None
    """ID of the job that the notification is about; None: it is not about a job."""
    path: str
    """Path of the portal page with details."""
    data: dict[str, Any]
    """Values that occur in ``text``, by name."""
    created_at: datetime
    read_at: datetime | None
    """Time at which it was marked as read; None: unread."""


class WebhookRecord(Record):
    """Webhook: a URL that receives notifications."""

    id: str
    url: str
    created_at: datetime
    enabled: bool
    """Whether notifications are sent to the webhook."""
    failures: int
    """Number of consecutive deliveries that failed."""
    disabled_reason: str | None
    """Reason why the webhook was disabled; None: enabled."""
    secret: str | None
    """Key that signs the messages. It is returned only when the webhook is created or the key is
    rotated, and is None otherwise.
    """
    disabled_why: str | None  # deprecated
    """Deprecated alias of ``disabled_reason``."""


class DeliveryRecord(Record):
    """Delivery of one notification by mail or to a webhook."""

    id: int
    kind: str
    """Kind of the notification; ``test`` for a test message."""
    title: str
    state: str
    """``waiting``, ``sent`` or ``failed``. A failed delivery is not retried."""
    attempts: int
    """Number of attempts so far."""
    status: int | None
    """Status code of the last response; None: no response."""
    error: str | None
    """Reason why the last attempt failed; None: it succeeded, or there was no attempt."""
    created_at: datetime
    next_attempt_at: datetime | None
    """Time of the next attempt; None: the delivery has ended."""
    finished_at: datetime | None
    """Time at which the message was sent or the last attempt failed; None: the delivery
    continues.
    """
    tries: int  # deprecated
    """Deprecated alias of ``attempts``."""
    next_try_at: datetime | None  # deprecated
    """Deprecated alias of ``next_attempt_at``."""


class NotificationSettingsRecord(Record):
    """Notification settings of the user."""

    channels: list[str]
    """Channels that this site offers, such as ``browser`` and ``mail``."""
    mail: str | None
    """Mail address for notifications; None: no mail is sent."""
    choices: dict[str, Any]
    """For each kind of notification, whether it is sent on each channel. Defaults are filled in."""
    quiet_until: datetime | None
    """Time until which notifications appear only in the portal's inbox; None: no restriction."""


class Notifications:
    """Operations on notifications, as ``client.notifications``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(
        self, *, unread: bool = False, limit: int | None = None, most: int | None = None
    ) -> Iterator[NotificationRecord]:
        """Iterate over notifications, newest first; pages are fetched as needed. ``limit`` is the
        maximum number of notifications; ``most`` is its deprecated alias."""
        limit = resolve_deprecated_limit(limit, most)
        query = {"unread": True if unread else None}
        return (
            NotificationRecord(raw)
            for raw in self._session.list_pages("/notifications", query, limit=limit)
        )

    def mark_read(self, ids: Sequence[int] | None = None) -> int:
        """Mark the notifications ``ids`` as read (None: all), and return the number of
        notifications that are still unread.
        """
        body = {} if ids is None else {"ids": [*ids]}
        answer = self._session.request_json(
            "POST", "/notifications/read", body=body, repeatable=True
        )
        return int(answer["unread"])

    def read(self, ids: Sequence[int] | None = None) -> int:
        """Mark notifications as read. Deprecated alias of ``mark_read``."""
        warn_renamed("notifications.read", "notifications.mark_read")
        return self.mark_read(ids)

    def settings(self) -> NotificationSettingsRecord:
        """Return the notification settings of the user."""
        return NotificationSettingsRecord(
            self._session.request_json("GET", "/notifications/settings")
        )

    def set(
        self,
        choices: Mapping[str, Mapping[str, bool]],
        *,
        mail: str | None = None,
        quiet_until: str | None = None,
    ) -> NotificationSettingsRecord:
        """Replace the notification settings of the user.

        ``choices`` states for each kind of notification and each channel whether it is used;
        omitted kinds get their defaults. ``mail`` is the mail address; None: no mail is sent.
        ``quiet_until`` is the time until which only the portal's inbox is used; None: no
        restriction. Raises ``InvalidInput``.
        """
        body = {"choices": choices, "mail": mail, "quiet_until": quiet_until}
        settings = self._session.request_json(
            "PUT", "/notifications/settings", body=body, repeatable=True
        )
        return NotificationSettingsRecord(settings)

    def test_mail(self) -> DeliveryRecord:
        """Send a test mail to the user. ``mails`` lists its outcome."""
        return DeliveryRecord(self._session.request_json("POST", "/notifications/mail/test"))

    def mails(self) -> builtins.list[DeliveryRecord]:
        """Return the last mails to the user, newest first."""
        deliveries = self._session.request_json("GET", "/notifications/mail/deliveries")
        return [DeliveryRecord(raw) for raw in deliveries["items"]]

    def idle_gpus(self) -> builtins.list[Job]:
        """Return the running batch jobs that do not use their GPUs, those idle for longest first;
        administrators only."""
        jobs = self._session.request_json("GET", "/admin/idle-gpus")
        return [Job(raw) for raw in jobs["items"]]


class Webhooks:
    """Operations on webhooks, as ``client.webhooks``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> builtins.list[WebhookRecord]:
        """Return the user's webhooks, oldest first."""
        return [
            WebhookRecord(raw) for raw in self._session.request_json("GET", "/webhooks")["items"]
        ]

    def get(self, webhook_id: str) -> WebhookRecord:
        """Return one webhook. Raises ``NotFound``."""
        return WebhookRecord(
            self._session.request_json("GET", f"/webhooks/{quote_segment(webhook_id)}")
        )

    def create(self, url: str) -> WebhookRecord:
        """Create a webhook; its ``secret`` is returned only once. Raises ``InvalidInput``."""
        return WebhookRecord(self._session.request_json("POST", "/webhooks", body={"url": url}))

    def update(
        self, webhook_id: str, *, url: str | None = None, enabled: bool | None = None
    ) -> WebhookRecord:
        """Change the URL of a webhook, or enable or disable it. Arguments that are None leave the
        value unchanged. Raises ``NotFound``.
        """
        changes = {"url": url, "enabled": enabled}
        body = {name: value for name, value in changes.items() if value is not None}
        path = f"/webhooks/{quote_segment(webhook_id)}"
        return WebhookRecord(self._session.request_json("PATCH", path, body=body, repeatable=True))

    def rotate(self, webhook_id: str) -> WebhookRecord:
        """Replace the ``secret`` of a webhook; the old one is not used any more. Raises
        ``NotFound``."""
        return WebhookRecord(
            self._session.request_json("POST", f"/webhooks/{quote_segment(webhook_id)}/rotate")
        )

    def test(self, webhook_id: str) -> DeliveryRecord:
        """Send a test message. ``deliveries`` lists its outcome. Raises ``NotFound``."""
        return DeliveryRecord(
            self._session.request_json("POST", f"/webhooks/{quote_segment(webhook_id)}/test")
        )

    def deliveries(self, webhook_id: str) -> builtins.list[DeliveryRecord]:
        """Return the last deliveries to a webhook, newest first. Raises ``NotFound``."""
        deliveries = self._session.request_json(
            "GET", f"/webhooks/{quote_segment(webhook_id)}/deliveries"
        )
        return [DeliveryRecord(raw) for raw in deliveries["items"]]

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook. Raises ``NotFound``."""
        self._session.request_json("DELETE", f"/webhooks/{quote_segment(webhook_id)}")
