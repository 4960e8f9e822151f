"""What one was told, what one is told and how, and one's webhooks."""

from __future__ import annotations

from aitne.client.records import Job, Record
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from aitne.client.session import Session


class Notification(Record):
    """Something one was told; ``read_at`` None: not read yet."""

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


class Webhook(Record):
    """An address that is told; ``secret`` is there once, when it was made or renewed."""

    id: str
    url: str
    created_at: datetime
    enabled: bool
    failures: int
    disabled_why: str | None
    secret: str | None


class Delivery(Record):
    """One message on its way: ``waiting``, ``sent`` or ``failed``."""

    id: int
    kind: str
    title: str
    state: str
    tries: int
    status: int | None
    error: str | None
    created_at: datetime
    next_try_at: datetime | None
    finished_at: datetime | None


class NotificationSettings(Record):
    """What one is told: per kind and channel, with the defaults filled in."""

    channels: list[str]
    mail: str | None
    choices: dict[str, Any]
    quiet_until: datetime | None


class Notifications:
    """``client.notifications``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, unread: bool = False, most: int | None = None) -> Iterator[Notification]:
        """Newest first, page by page as they are asked for."""
        query = {"unread": True if unread else None}
        return (
            Notification(raw) for raw in self._session.pages("/notifications", query, most=most)
        )

    def read(self, ids: Sequence[int] | None = None) -> int:
        """Mark those as read, or all; how many are left."""
        body = {} if ids is None else {"ids": [*ids]}
        found = self._session.json("POST", "/notifications/read", body=body, repeatable=True)
        return int(found["unread"])

    def settings(self) -> NotificationSettings:
        """What one is told, and how."""
        return NotificationSettings(self._session.json("GET", "/notifications/settings"))

    def set(
        self,
        choices: Mapping[str, Mapping[str, bool]],
        *,
        mail: str | None = None,
        quiet_until: str | None = None,
    ) -> NotificationSettings:
        """Replace what one is told: what is left out is as usual. Raises ``InvalidInput``."""
        body = {"choices": choices, "mail": mail, "quiet_until": quiet_until}
        found = self._session.json("PUT", "/notifications/settings", body=body, repeatable=True)
        return NotificationSettings(found)

    def test_mail(self) -> Delivery:
        """Send oneself a mail. What became of it stands among ``mails``."""
        return Delivery(self._session.json("POST", "/notifications/mail/test"))

    def mails(self) -> builtins.list[Delivery]:
        """The last mails, newest first."""
        found = self._session.json("GET", "/notifications/mail/deliveries")
        return [Delivery(raw) for raw in found["items"]]

    def idle_gpus(self) -> builtins.list[Job]:
        """The batch jobs that leave their GPUs idle, longest first; administrators only."""
        found = self._session.json("GET", "/admin/idle-gpus")
        return [Job(raw) for raw in found["items"]]


class Webhooks:
    """``client.webhooks``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> builtins.list[Webhook]:
        """Oldest first."""
        return [Webhook(raw) for raw in self._session.json("GET", "/webhooks")["items"]]

    def get(self, webhook_id: str) -> Webhook:
        """One of them. Raises ``NotFound``."""
        return Webhook(self._session.json("GET", f"/webhooks/{segment(webhook_id)}"))

    def create(self, url: str) -> Webhook:
        """Have a URL told; its ``secret`` is shown this once. Raises ``InvalidInput``."""
        return Webhook(self._session.json("POST", "/webhooks", body={"url": url}))

    def update(
        self, webhook_id: str, *, url: str | None = None, enabled: bool | None = None
    ) -> Webhook:
        """Change where it leads, disable it, or enable it again. Raises ``NotFound``."""
        given = {"url": url, "enabled": enabled}
        body = {name: value for name, value in given.items() if value is not None}
        path = f"/webhooks/{segment(webhook_id)}"
        return Webhook(self._session.json("PATCH", path, body=body, repeatable=True))

    def rotate(self, webhook_id: str) -> Webhook:
        """Make a new ``secret``; the old one signs nothing more. Raises ``NotFound``."""
        return Webhook(self._session.json("POST", f"/webhooks/{segment(webhook_id)}/rotate"))

    def test(self, webhook_id: str) -> Delivery:
        """Send it a test. What became of it stands among its ``deliveries``. Raises ``NotFound``."""
        return Delivery(self._session.json("POST", f"/webhooks/{segment(webhook_id)}/test"))

    def deliveries(self, webhook_id: str) -> builtins.list[Delivery]:
        """The last messages to it, newest first. Raises ``NotFound``."""
        found = self._session.json("GET", f"/webhooks/{segment(webhook_id)}/deliveries")
        return [Delivery(raw) for raw in found["items"]]

    def delete(self, webhook_id: str) -> None:
        """Remove it. Raises ``NotFound``."""
        self._session.json("DELETE", f"/webhooks/{segment(webhook_id)}")
