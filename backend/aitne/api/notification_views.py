"""Requests and answers of the API for notifications and webhooks."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from aitne.api.job_views import JobView
from aitne.core.models.base import AskedFlag, Flag, Frozen, Strict, UtcTime
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
from aitne.core.webhooks import LONGEST_URL


class NotificationView(Frozen):
    """One notification to the user."""

    id: int = Field(description="Grows with time.", examples=[17])
    kind: NotificationKind = Field(description="What happened.")
    level: Level = Field(description="How urgent it looks.")
    title: str = Field(description="In a few words.", examples=["train has finished"])
    text: str = Field(description="More, if there is more to say.", examples=["It ran for 2h."])
    job_id: UUID | None = Field(description="The job, session or array job that it is about.")
    path: str = Field(description="Where in the portal there is more.", examples=["/jobs"])
    data: dict[str, Any] = Field(
        description="Names and numbers of the text, for programs. log: of a job that failed, the last "
        "lines of its log.",
        examples=[{"name": "train"}],
    )
    created_at: UtcTime = Field(description="When you were told.")
    read_at: UtcTime | None = Field(description="When you read it; null: not yet.")

    @classmethod
    def of(cls, found: Notification) -> NotificationView:
        """Return a notification as its owner sees it."""
        return cls(**found.model_dump(exclude={"owner", "event_id"}))


class NotificationPage(Frozen):
    """One page of the user's notifications, newest first."""

    items: list[NotificationView] = Field(description="What is on this page.")
    next_cursor: str | None = Field(description="For the next page; null: this is the last.")
    total: int = Field(description="How many match.")
    unread: int = Field(description="How many you have not read, whatever the page shows.")


class NotificationQuery(Strict):
    """Selection of notifications, with the page to return."""

    unread: AskedFlag = Field(False, description="Only those that you have not read.")
    cursor: str | None = Field(None, max_length=500, description="next_cursor of the page before.")
    limit: int = Field(50, ge=1, le=500, description="How many on a page.")


class ReadNotifications(Strict):
    """Notifications to mark as read."""

    ids: list[Annotated[int, Field(ge=1, le=2**53)]] | None = Field(
        None, max_length=500, description="Omitted: all.", examples=[[17, 18]]
    )


class UnreadCount(Frozen):
    """Number of unread notifications."""

    unread: int = Field(description="How many.", examples=[3])


class NotificationSettingsView(Frozen):
    """Notification settings of the user: channels, address, choices by kind."""

    channels: list[str] = Field(
        description="What this site has; `browser` is the inbox and the portal.",
        examples=[["browser", "mail", "webhook"]],
    )
    mail: str | None = Field(
        description="Where mail goes; null: nowhere.", examples=["ada@example.org"]
    )
    choices: dict[NotificationKind, dict[str, bool]] = Field(
        description="Per kind and channel, whether you are told.",
        examples=[{"job_finished": {"browser": True, "mail": False}}],
    )
    quiet_until: UtcTime | None = Field(description="Until then only the inbox is used.")


class NotificationSettingsChanges(NotificationChoices):
    """New notification settings of the user."""

    choices: dict[NotificationKind, dict[ChannelName, Flag]] = Field(
        description="Per kind and channel, whether you are told. What is left out is as usual.",
        examples=[{"job_finished": {"mail": True}}],
    )
    mail: str | None = Field(
        None, max_length=254, description="Null: no mail.", examples=["ada@example.org"]
    )

    def to_choices(self) -> NotificationChoices:
        """Return the choices without the mail address, which belongs to the user."""
        return NotificationChoices(choices=self.choices, quiet_until=self.quiet_until)


class WebhookUrl(Strict):
    """URL of a new webhook."""

    url: str = Field(
        min_length=1,
        max_length=LONGEST_URL,
        description="An https URL that is no private address, unless the site permits it.",
        examples=["https://hooks.example.org/aitne"],
    )


class WebhookChanges(Strict):
    """Changes of a webhook; omitted fields keep their values."""

    url: str | None = Field(
        None, min_length=1, max_length=LONGEST_URL, description="Where it leads."
    )
    enabled: Flag | None = Field(None, description="Whether it is told.")


class WebhookView(Frozen):
    """A webhook, without its secret."""

    id: str = Field(description="Its name.", examples=["wh_5f2d1c0b9a8e7d6c"])
    url: str = Field(description="Where it leads.", examples=["https://hooks.example.org/aitne"])
    created_at: UtcTime = Field(description="When it was made.")
    enabled: bool = Field(description="Whether it is told.")
    failures: int = Field(description="Messages in a row that it did not take.")
    disabled_why: str | None = Field(description="Why it is no longer told.")

    @classmethod
    def of(cls, webhook: Webhook) -> WebhookView:
        """Return a webhook as its owner sees it."""
        return cls(
            id=webhook.id,
            url=webhook.url,
            created_at=webhook.created_at,
            enabled=webhook.disabled_at is None,
            failures=webhook.failures,
            disabled_why=webhook.disabled_why,
        )


class WebhookSecret(WebhookView):
    """A webhook with its secret, which is shown only once."""

    secret: str = Field(
        description="Signs each message: HMAC-SHA256 over `<t>.<body>`.", examples=["whsec_..."]
    )


class WebhookList(Frozen):
    """Webhooks of the user, without their secrets."""

    items: list[WebhookView] = Field(description="Oldest first.")


class DeliveryView(Frozen):
    """One delivery of a notification."""

    id: int = Field(description="Grows with time.")
    kind: str = Field(description="Of the notification, or `test`.", examples=["job_finished"])
    title: str = Field(description="What it says.")
    state: DeliveryState = Field(description="`waiting` is tried again; `failed` was given up.")
    tries: int = Field(description="How often it was tried.")
    status: int | None = Field(description="What the other side answered last.", examples=[200])
    error: str | None = Field(description="Why the last try failed.")
    created_at: UtcTime = Field(description="When it was written.")
    next_try_at: UtcTime | None = Field(description="When it is tried again.")
    finished_at: UtcTime | None = Field(description="When it was sent or given up.")

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryView:
        """Return a delivery as its owner sees it."""
        waiting = delivery.state is DeliveryState.WAITING
        return cls(
            **delivery.model_dump(
                include={"id", "state", "tries", "status", "error", "created_at", "finished_at"}
            ),
            kind=str(delivery.message.get("kind", "")),
            title=str(delivery.message.get("title", "")),
            next_try_at=delivery.available_at if waiting else None,
        )


class DeliveryList(Frozen):
    """The last deliveries, newest first."""

    items: list[DeliveryView] = Field(description="The last 20.")


class IdleGpuJobs(Frozen):
    """Batch jobs that leave their GPUs idle."""

    items: list[JobView] = Field(description="Longest first.")
    gpus: int = Field(description="How many GPUs they hold together.")
