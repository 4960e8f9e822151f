"""Inbox, notification preferences and webhooks of a user."""

from __future__ import annotations

import builtins
import functools
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

from aitne.core.errors import InvalidInput, NotAllowed, RateLimited
from aitne.core.models.base import Frozen
from aitne.core.models.job import Job
from aitne.core.models.notification import (
    BROWSER,
    MAIL,
    WEBHOOK,
    Delivery,
    NewDelivery,
    Notification,
    NotificationChoices,
    NotificationContent,
    NotificationKind,
    Webhook,
    make_message,
)
from aitne.core.models.user import Actor
from aitne.core.notifications.settings import check_mail_address
from aitne.core.notifications.webhooks import SECRET_KEY, check_url, derive_secret
from aitne.core.settings import Settings
from aitne.core.users.permissions import (
    PolicyAction,
    require_permission,
    require_recent_authentication,
)
from aitne.services.platform.shared_secrets import read_secret
from aitne.store import Store
from aitne.store.paging import Page
from aitne.store.store_part import Check

MOST_WEBHOOKS = 10
SHOWN_DELIVERIES = 20
TEST = "test"
MOST_TESTS, TESTS_WITHIN_S = 10, 600.0
"""Maximum number of test messages of one user, and the period in seconds in which they are counted.

They are limited because the platform does not verify who owns an address before it sends a message
there.
"""


class NotificationPreferences(Frozen):
    """A user's settings of notifications: the channels for each kind, the mail address, and a
    period without notifications.
    """

    channels: tuple[str, ...]
    """Names of the notification channels that the platform offers, beginning with the portal's own
    channel.
    """
    mail: str | None
    """Mail address; None means that no mail is sent."""
    choices: dict[NotificationKind, dict[str, bool]]
    """Whether a kind of notification is sent on a channel, for all kinds and channels, including
    defaults.
    """
    quiet_until: datetime | None


class NotificationService:
    """Service for the actor's own notifications, their settings, and webhooks."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        list_channels: Callable[[], Sequence[str]],
        clock: Callable[[], datetime],
    ) -> None:
        """Store the dependencies.

        Args:
            list_channels: returns the names of the channels that the site has configured. It loads
                their modules, so it is called only when a user needs the names.
        """
        self._store = store
        self._settings = settings
        self._list_channels = list_channels
        self._clock = clock

    @functools.cached_property
    def _channels(self) -> tuple[str, ...]:
        return (BROWSER, *self._list_channels())

    async def inbox(
        self, actor: Actor, *, unread: bool, cursor: str | None, limit: int
    ) -> tuple[Page[Notification], int]:
        """Return one page of the actor's notifications, newest first, and the number of unread
        ones.

        Raises ``InvalidInput`` for an invalid cursor.
        """
        _require_own_permission(PolicyAction.NOTIFICATION_READ, actor)
        page = await self._store.list_notifications(
            actor.name, unread_only=unread, cursor=cursor, limit=limit
        )
        return page, await self._store.count_unread_notifications(actor.name)

    async def mark_read(self, actor: Actor, ids: Sequence[int] | None) -> int:
        """Mark the actor's notifications with these IDs as read (None: all notifications); return
        the number of unread notifications that remain.
        """
        _require_own_permission(PolicyAction.NOTIFICATION_WRITE, actor)
        return await self._store.mark_notifications_read(actor.name, ids, self._clock())

    async def preferences(self, actor: Actor) -> NotificationPreferences:
        """Return the actor's settings of notifications, with defaults where none were chosen."""
        _require_own_permission(PolicyAction.NOTIFICATION_READ, actor)
        user = await self._store.get_user(actor.name)
        return self._to_preferences(
            user.mail, await self._store.get_notification_choices(actor.name)
        )

    def _to_preferences(
        self, mail: str | None, choices: NotificationChoices
    ) -> NotificationPreferences:
        return NotificationPreferences(
            channels=self._channels,
            mail=mail,
            choices={
                kind: {name: choices.wants(kind, name) for name in self._channels}
                for kind in NotificationKind
            },
            quiet_until=choices.quiet_until,
        )

    async def save_preferences(
        self,
        actor: Actor,
        choices: NotificationChoices,
        mail: str | None,
        *,
        check: Check[NotificationPreferences] = None,
    ) -> NotificationPreferences:
        """Replace the actor's choices of channels and the mail address (None: no mail).

        Raises:
            InvalidInput: the address is invalid, or there is no such channel.
        """
        _require_own_permission(PolicyAction.NOTIFICATION_WRITE, actor)
        if mail is not None:
            try:
                check_mail_address(mail)
            except ValueError as error:
                raise InvalidInput.field(
                    "mail", str(error), value=mail[:100], allowed="an address, or null"
                ) from error
        if (mail or None) != (await self._store.get_user(actor.name)).mail:
            require_recent_authentication(actor, self._clock())
        for kind, by_channel in choices.choices.items():
            for name in by_channel:
                if name not in self._channels:
                    raise InvalidInput.field(
                        f"choices.{kind}",
                        f"this site has no channel {name}",
                        value=name,
                        allowed=", ".join(self._channels),
                    )
        store_check: Check[tuple[str | None, NotificationChoices]] = (
            None if check is None else lambda stored: check(self._to_preferences(*stored))
        )
        await self._store.save_notification_choices(
            actor.name, choices, mail=mail or "", check=store_check
        )
        return await self.preferences(actor)

    async def send_test_mail(self, actor: Actor) -> Delivery:
        """Send a test mail to the actor and return its delivery.

        Raises ``InvalidInput`` if the actor has no mail address.
        """
        _require_own_permission(PolicyAction.NOTIFICATION_WRITE, actor)
        user = await self._store.get_user(actor.name)
        if MAIL not in self._channels or user.mail is None:
            reason = (
                "you have no mail address" if MAIL in self._channels else "this site sends no mail"
            )
            raise InvalidInput.field("mail", reason)
        return await self._send_test(actor, MAIL, "")

    async def mail_deliveries(self, actor: Actor) -> Sequence[Delivery]:
        """List the last deliveries by mail to the actor, newest first."""
        _require_own_permission(PolicyAction.NOTIFICATION_READ, actor)
        return await self._store.list_deliveries(
            owner=actor.name, channel=MAIL, target="", limit=SHOWN_DELIVERIES
        )

    # --- webhooks --------------------------------------------------------------------------------

    async def list_webhooks(self, actor: Actor) -> Sequence[Webhook]:
        """List the actor's webhooks, oldest first."""
        _require_own_permission(PolicyAction.NOTIFICATION_READ, actor)
        return await self._store.list_webhooks(actor.name)

    async def webhook(self, actor: Actor, webhook_id: str) -> Webhook:
        """Return a webhook of the actor. Raises ``NotFound``."""
        return await self._get_permitted_webhook(PolicyAction.NOTIFICATION_READ, actor, webhook_id)

    async def create_webhook(self, actor: Actor, url: str) -> tuple[Webhook, str]:
        """Create a webhook and return it with its secret, which cannot be read again later.

        Raises:
            InvalidInput: the platform's settings do not permit this URL.
            NotAllowed: the platform's settings disable webhooks.
            Conflict: the user has too many webhooks.
        """
        _require_own_permission(PolicyAction.NOTIFICATION_WRITE, actor)
        require_recent_authentication(actor, self._clock())
        self._check_url(url)
        webhook = Webhook(
            id=f"wh_{secrets.token_hex(8)}",
            owner=actor.name,
            url=url,
            created_at=self._clock(),
        )
        secret = self._derive_webhook_secret(webhook)
        await self._store.create_webhook(webhook, max_webhooks=MOST_WEBHOOKS)
        return webhook, secret

    async def update_webhook(
        self,
        actor: Actor,
        webhook_id: str,
        *,
        url: str | None,
        enabled: bool | None,
        check: Check[Webhook] = None,
    ) -> Webhook:
        """Change the URL of a webhook, or enable or disable it; None leaves a value unchanged.

        Raises ``NotFound``, and ``InvalidInput`` if the platform's settings do not permit the URL.
        """
        await self._get_permitted_webhook(PolicyAction.NOTIFICATION_WRITE, actor, webhook_id)
        if url is not None:
            require_recent_authentication(actor, self._clock())
            self._check_url(url)
        return await self._store.update_webhook(
            webhook_id,
            url=url,
            enable=enabled is True,
            disable=(self._clock(), f"Disabled by {actor.name}.") if enabled is False else None,
            check=check,
        )

    async def rotate_webhook_secret(self, actor: Actor, webhook_id: str) -> tuple[Webhook, str]:
        """Replace the secret of a webhook and return the new one; the old secret signs no further
        messages.

        Raises ``NotFound``.
        """
        await self._get_permitted_webhook(PolicyAction.NOTIFICATION_WRITE, actor, webhook_id)
        require_recent_authentication(actor, self._clock())
        webhook = await self._store.update_webhook(webhook_id, rotate=True)
        return webhook, self._derive_webhook_secret(webhook)

    async def delete_webhook(self, actor: Actor, webhook_id: str) -> Webhook:
        """Delete a webhook of the actor and return it. Raises ``NotFound``."""
        webhook = await self._get_permitted_webhook(
            PolicyAction.NOTIFICATION_WRITE, actor, webhook_id
        )
        await self._store.delete_webhook(webhook_id)
        return webhook

    async def send_test_to_webhook(self, actor: Actor, webhook_id: str) -> Delivery:
        """Send a test message to the webhook, even if it is disabled, and return its delivery.

        Raises ``NotFound``.
        """
        await self._get_permitted_webhook(PolicyAction.NOTIFICATION_WRITE, actor, webhook_id)
        return await self._send_test(actor, WEBHOOK, webhook_id)

    async def webhook_deliveries(self, actor: Actor, webhook_id: str) -> Sequence[Delivery]:
        """List the last deliveries to the webhook, newest first. Raises ``NotFound``."""
        await self._get_permitted_webhook(PolicyAction.NOTIFICATION_READ, actor, webhook_id)
        return await self._store.list_deliveries(
            owner=actor.name, channel=WEBHOOK, target=webhook_id, limit=SHOWN_DELIVERIES
        )

    # --- work that is idle -----------------------------------------------------------------------

    async def idle_gpu_jobs(self, actor: Actor) -> builtins.list[Job]:
        """List all jobs whose GPUs are idle, those idle longest first.

        Raises ``NotAllowed`` unless the actor is an administrator.
        """
        require_permission(PolicyAction.PLATFORM_ADMINISTER, actor, "list", "idle GPUs")
        return list(await self._store.list_idle_gpu_jobs())

    # ---------------------------------------------------------------------------------------------

    async def _get_permitted_webhook(
        self, action: PolicyAction, actor: Actor, webhook_id: str
    ) -> Webhook:
        webhook = await self._store.get_webhook(webhook_id)
        require_permission(action, actor, "webhook", webhook_id, owner=webhook.owner)
        return webhook

    def _check_url(self, url: str) -> None:
        if not self._settings.webhooks.enabled:
            raise NotAllowed("This site has no webhooks ([webhooks] enabled = false).")
        try:
            check_url(url, self._settings.webhooks)
        except ValueError as error:
            raise InvalidInput.field("url", str(error), value=url[:200]) from error

    def _derive_webhook_secret(self, webhook: Webhook) -> str:
        key = read_secret(self._settings, SECRET_KEY)
        return derive_secret(key, webhook.id, webhook.generation)

    async def _send_test(self, actor: Actor, channel: str, target: str) -> Delivery:
        now = self._clock()
        tests = await self._store.record_attempt(f"test:{actor.name}", now, window_s=TESTS_WITHIN_S)
        if tests > MOST_TESTS:
            raise RateLimited(
                f"At most {MOST_TESTS} test messages can be sent in {TESTS_WITHIN_S / 60:.0f} minutes. "
                "Check the results of those, and wait.",
                TESTS_WITHIN_S,
            )
        path = "/account/notifications"
        notice = NotificationContent(
            kind=NotificationKind.ANNOUNCEMENT,
            title=f"This is a test from {self._settings.title}",
            text="It was requested in the portal. Notifications work.",
            path=path,
        )
        message = make_message(
            notice,
            owner=actor.name,
            event_id=0,
            time=now.isoformat(),
            url=f"{self._settings.portal_url}{path}",
        )
        unique = {"id": f"test-{secrets.token_hex(8)}", "kind": TEST}
        new = NewDelivery(
            channel=channel, owner=actor.name, target=target, message={**message, **unique}
        )
        return await self._store.add_delivery(new)


def _require_own_permission(action: PolicyAction, actor: Actor) -> None:
    require_permission(action, actor, "user", actor.name, owner=actor.name)
