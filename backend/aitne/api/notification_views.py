"""Models of the API's requests and responses for notifications and webhooks."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field

from aitne.api.job_views import JobView
from aitne.core.models.base import AskedFlag, Flag, Frozen, Strict, UtcTime, deprecated_copy
from aitne.core.models.notification import (
    ChannelName,
    Delivery,
    DeliveryState,
    Level,
    Notification,
    NotificationChoices,
    NotificationKind,
    Webhook,
)
from aitne.core.notifications.webhooks import LONGEST_URL


class NotificationView(Frozen):
    """One notification to the user."""

    id: int = Field(description="Identifier; grows with time.", examples=[17])
    kind: NotificationKind = Field(description="Kind of the notification.")
    level: Level = Field(description="Urgency in the portal.")
    title: str = Field(description="Title in a few words.", examples=["train has finished"])
    text: str = Field(description="Details; may be empty.", examples=["It ran for 2 h."])
    job_id: UUID | None = Field(description="The job that it is about.")
    path: str = Field(description="Page of the portal with details.", examples=["/jobs"])
    data: dict[str, Any] = Field(
        description="Names and numbers of the text, for programs. log: the last lines of a failed "
        "job's log.",
        examples=[{"name": "train"}],
    )
    created_at: UtcTime = Field(description="Time of the notification.")
    read_at: UtcTime | None = Field(description="Time at which you read it; null: unread.")

    @classmethod
    def from_notification(cls, notification: Notification) -> NotificationView:
        """Create the API's representation of a stored notification."""
        return cls(**notification.model_dump(exclude={"owner", "event_id"}))


class NotificationPage(Frozen):
    """One page of the user's notifications, newest first."""

    items: list[NotificationView] = Field(description="Notifications on this page.")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")
    total: int = Field(description="Number of notifications that match.")
    unread: int = Field(description="Number of your unread notifications in total.")


class NotificationQuery(Strict):
    """Selection of notifications, with the page to return."""

    unread: AskedFlag = Field(False, description="Only unread notifications.")
    cursor: str | None = Field(
        None, max_length=500, description="next_cursor of the previous page."
    )
    limit: int = Field(50, ge=1, le=500, description="Maximum number on a page.")


class ReadNotifications(Strict):
    """Notifications to mark as read."""

    ids: list[Annotated[int, Field(ge=1, le=2**53)]] | None = Field(
        None,
        max_length=500,
        description="Notifications to mark; omitted: all.",
        examples=[[17, 18]],
    )


class UnreadCount(Frozen):
    """Number of unread notifications."""

    unread: int = Field(description="Number of unread notifications.", examples=[3])


class NotificationSettingsView(Frozen):
    """Notification settings of the user: mail address, available channels, and the chosen ones for
    each kind."""

    channels: list[str] = Field(
        description="Channels of this site; `browser` is the inbox and the portal.",
        examples=[["browser", "mail", "webhook"]],
    )
    mail: str | None = Field(
        description="Mail address; null: no mail.", examples=["ada@example.org"]
    )
    choices: dict[NotificationKind, dict[str, bool]] = Field(
        description="Whether you are notified, by kind and channel.",
        examples=[{"job_finished": {"browser": True, "mail": False}}],
    )
    quiet_until: UtcTime | None = Field(description="Time until which only the inbox is used.")


class NotificationSettingsChanges(NotificationChoices):
    """New notification settings of the user."""

    choices: dict[NotificationKind, dict[ChannelName, Flag]] = Field(
        description="Whether you are notified, by kind and channel; omitted: the default.",
        examples=[{"job_finished": {"mail": True}}],
    )
    mail: str | None = Field(
        None,
        max_length=254,
        description="Mail address; null: no mail.",
        examples=["ada@example.org"],
    )

    def to_choices(self) -> NotificationChoices:
        """Return the notification choices alone, without the mail address, which is stored with the
        account."""
        return NotificationChoices(choices=self.choices, quiet_until=self.quiet_until)


class WebhookUrl(Strict):
    """URL to which a new webhook sends notifications."""

    url: str = Field(
        min_length=1,
        max_length=LONGEST_URL,
        description="An https URL; a private address only if the site permits it.",
        examples=["https://hooks.example.org/aitne"],
    )


class WebhookChanges(Strict):
    """Changes of a webhook; omitted fields keep their values."""

    url: str | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_URL,
        description="URL that receives the messages.",
    )
    enabled: Flag | None = Field(None, description="Whether it receives messages.")


class WebhookView(Frozen):
    """A webhook, without its secret."""

    id: str = Field(description="Name of the webhook.", examples=["wh_5f2d1c0b9a8e7d6c"])
    url: str = Field(
        description="URL that receives the messages.", examples=["https://hooks.example.org/aitne"]
    )
    created_at: UtcTime = Field(description="Time of creation.")
    enabled: bool = Field(description="Whether it receives messages.")
    failures: int = Field(description="Number of consecutive failed deliveries.")
    disabled_reason: str | None = Field(description="Why it is disabled.")
    disabled_why: ClassVar = deprecated_copy("disabled_reason", str | None)

    @classmethod
    def from_webhook(cls, webhook: Webhook) -> WebhookView:
        """Create the API's representation of a stored webhook, without its secret."""
        return cls(
            id=webhook.id,
            url=webhook.url,
            created_at=webhook.created_at,
            enabled=webhook.disabled_at is None,
            failures=webhook.failures,
            disabled_reason=webhook.disabled_why,
        )


class WebhookSecret(WebhookView):
    """A webhook with its secret, which is shown only once."""

    secret: str = Field(
        description="Key that signs each message: HMAC-SHA256 over `<t>.<body>`.",
        examples=["whsec_..."],
    )


class WebhookList(Frozen):
    """Webhooks of the user, without their secrets."""

    items: list[WebhookView] = Field(description="Webhooks, oldest first.")


class DeliveryView(Frozen):
    """Delivery of one notification by mail or to a webhook, with the outcome of its attempts."""

    id: int = Field(description="Identifier; grows with time.")
    kind: str = Field(description="Kind of the notification, or `test`.", examples=["job_finished"])
    title: str = Field(description="Title of the message.")
    state: DeliveryState = Field(description="`waiting` is retried; `failed` is not.")
    attempts: int = Field(description="Number of attempts.")
    status: int | None = Field(description="Status of the last answer.", examples=[200])
    error: str | None = Field(description="Why the last attempt failed.")
    created_at: UtcTime = Field(description="Time of creation.")
    next_attempt_at: UtcTime | None = Field(description="Time of the next attempt.")
    finished_at: UtcTime | None = Field(description="Time at which it was sent or given up.")
    tries: ClassVar = deprecated_copy("attempts", int)
    next_try_at: ClassVar = deprecated_copy("next_attempt_at", UtcTime | None)

    @classmethod
    def from_delivery(cls, delivery: Delivery) -> DeliveryView:
        """Create the API's representation of a stored delivery."""
        waiting = delivery.state is DeliveryState.WAITING
        return cls(
            **delivery.model_dump(
                include={"id", "state", "status", "error", "created_at", "finished_at"}
            ),
            attempts=delivery.tries,
            kind=str(delivery.message.get("kind", "")),
            title=str(delivery.message.get("title", "")),
            next_attempt_at=delivery.available_at if waiting else None,
        )


class DeliveryList(Frozen):
    """Latest deliveries to a webhook, or of mails to the user, newest first."""

    items: list[DeliveryView] = Field(description="The last 20 deliveries.")


class IdleGpuJobs(Frozen):
    """List of running jobs and sessions that do not use their GPUs."""

    items: list[JobView] = Field(description="Jobs, longest idle first.")
    gpus: int = Field(description="Number of GPUs that they hold.")
