"""Operations on the user's notifications, their settings, and webhooks."""

from __future__ import annotations

from aitne.client.deprecation import limit_of, warn_renamed
from aitne.client.record import Record
from aitne.client.records import Job
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from aitne.client.session import ApiSession


class NotificationRecord(Record):
    """One notification; ``read_at`` is None while it is unread."""

    id: int
    kind: str
    level: str
    title: str
    text: str
    job_id: str | None
    path: str
    data: dict[str, Any]
    created_at: datetime
    read_at: datetime | None


class WebhookRecord(Record):
    """Webhook: URL that receives notifications. ``secret`` is set only after creation or
    rotation."""

    id: str
    url: str
    created_at: datetime
    enabled: bool
    failures: int
    disabled_reason: str | None
    secret: str | None
    disabled_why: str | None  # deprecated


class DeliveryRecord(Record):
    """Delivery of a notification by mail or to a webhook. ``state`` is ``waiting``, ``sent`` or
    ``failed``."""

    id: int
    kind: str
    title: str
    state: str
    attempts: int
    status: int | None
    error: str | None
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None
    tries: int  # deprecated
    next_try_at: datetime | None  # deprecated


class NotificationSettingsRecord(Record):
    """Notification settings of the user: mail address, and for each kind the channels, with
    defaults filled in."""

    channels: list[str]
    mail: str | None
    choices: dict[str, Any]
    quiet_until: datetime | None


class Notifications:
    """Operations on notifications, as ``client.notifications``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(
        self, *, unread: bool = False, limit: int | None = None, most: int | None = None
    ) -> Iterator[NotificationRecord]:
        """Iterate over notifications, newest first; pages are fetched as needed. ``limit`` is the
        maximum number of notifications; ``most`` is its deprecated alias."""
        limit = limit_of(limit, most)
        query = {"unread": True if unread else None}
        return (
            NotificationRecord(raw)
            for raw in self._session.pages("/notifications", query, limit=limit)
        )

    def mark_read(self, ids: Sequence[int] | None = None) -> int:
        """Mark the notifications ``ids`` as read, or all if it is None, and return the number of
        those still unread."""
        body = {} if ids is None else {"ids": [*ids]}
        answer = self._session.json("POST", "/notifications/read", body=body, repeatable=True)
        return int(answer["unread"])

    def read(self, ids: Sequence[int] | None = None) -> int:
        """Mark notifications as read. Deprecated alias of ``mark_read``."""
        warn_renamed("notifications.read", "notifications.mark_read")
        return self.mark_read(ids)

    def settings(self) -> NotificationSettingsRecord:
        """Return the notification settings of the user."""
        return NotificationSettingsRecord(self._session.json("GET", "/notifications/settings"))

    def set(
        self,
        choices: Mapping[str, Mapping[str, bool]],
        *,
        mail: str | None = None,
        quiet_until: str | None = None,
    ) -> NotificationSettingsRecord:
        """Replace the notification settings. ``choices`` has for each kind the channels to use;
        omitted kinds and arguments get their defaults. Raises ``InvalidInput``."""
        body = {"choices": choices, "mail": mail, "quiet_until": quiet_until}
        settings = self._session.json("PUT", "/notifications/settings", body=body, repeatable=True)
        return NotificationSettingsRecord(settings)

    def test_mail(self) -> DeliveryRecord:
        """Send a test mail to the user. ``mails`` lists its outcome."""
        return DeliveryRecord(self._session.json("POST", "/notifications/mail/test"))

    def mails(self) -> builtins.list[DeliveryRecord]:
        """Return the last mails to the user, newest first."""
        deliveries = self._session.json("GET", "/notifications/mail/deliveries")
        return [DeliveryRecord(raw) for raw in deliveries["items"]]

    def idle_gpus(self) -> builtins.list[Job]:
        """Return the running batch jobs that do not use their GPUs, those idle for longest first;
        administrators only."""
        jobs = self._session.json("GET", "/admin/idle-gpus")
        return [Job(raw) for raw in jobs["items"]]


class Webhooks:
    """Operations on webhooks, as ``client.webhooks``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> builtins.list[WebhookRecord]:
        """Return the user's webhooks, oldest first."""
        return [WebhookRecord(raw) for raw in self._session.json("GET", "/webhooks")["items"]]

    def get(self, webhook_id: str) -> WebhookRecord:
        """Return one webhook. Raises ``NotFound``."""
        return WebhookRecord(self._session.json("GET", f"/webhooks/{segment(webhook_id)}"))

    def create(self, url: str) -> WebhookRecord:
        """Create a webhook; its ``secret`` is returned only once. Raises ``InvalidInput``."""
        return WebhookRecord(self._session.json("POST", "/webhooks", body={"url": url}))

    def update(
        self, webhook_id: str, *, url: str | None = None, enabled: bool | None = None
    ) -> WebhookRecord:
        """Change the URL of a webhook, disable it, or enable it again. Raises ``NotFound``."""
        changes = {"url": url, "enabled": enabled}
        body = {name: value for name, value in changes.items() if value is not None}
        path = f"/webhooks/{segment(webhook_id)}"
        return WebhookRecord(self._session.json("PATCH", path, body=body, repeatable=True))

    def rotate(self, webhook_id: str) -> WebhookRecord:
        """Replace the ``secret`` of a webhook; the old one is not used any more. Raises
        ``NotFound``."""
        return WebhookRecord(self._session.json("POST", f"/webhooks/{segment(webhook_id)}/rotate"))

    def test(self, webhook_id: str) -> DeliveryRecord:
        """Send a test message. ``deliveries`` lists its outcome. Raises ``NotFound``."""
        return DeliveryRecord(self._session.json("POST", f"/webhooks/{segment(webhook_id)}/test"))

    def deliveries(self, webhook_id: str) -> builtins.list[DeliveryRecord]:
        """Return the last deliveries to a webhook, newest first. Raises ``NotFound``."""
        deliveries = self._session.json("GET", f"/webhooks/{segment(webhook_id)}/deliveries")
        return [DeliveryRecord(raw) for raw in deliveries["items"]]

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook. Raises ``NotFound``."""
        self._session.json("DELETE", f"/webhooks/{segment(webhook_id)}")
