"""Notifications, their channels and their deliveries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, Strict, UserName, UtcTime

BROWSER, MAIL, WEBHOOK = "browser", "mail", "webhook"
"""The channels: the first is the inbox itself, the others are plug-ins."""
PAYLOAD_VERSION = 1
"""Version of the body that webhooks receive: fields are only ever added within one."""


class NotificationKind(StrEnum):
    """Kind of event that users are notified of."""

    SESSION_READY = "session_ready"
    SESSION_EXPIRING = "session_expiring"
    SESSION_IDLE = "session_idle"
    SESSION_ENDED = "session_ended"
    """By itself, by the platform or by another user; not at its owner's own request."""
    JOB_STARTED = "job_started"
    JOB_FINISHED = "job_finished"
    JOB_FAILED = "job_failed"
    GPU_IDLE = "gpu_idle"
    """A batch job does next to nothing with its GPUs."""
    PROJECT_INVITED = "project_invited"
    PROJECT_REQUESTED = "project_requested"
    PROJECT_EXPIRING = "project_expiring"
    ANNOUNCEMENT = "announcement"
    MAINTENANCE = "maintenance"
    WEBHOOK_DISABLED = "webhook_disabled"
    ACCOUNT_SECURITY = "account_security"
    """A sign-in from an unknown browser, a new token, a new password or a removed second factor."""


class Level(StrEnum):
    """Level of a notification, shown as its urgency."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"


_K = NotificationKind
_BY_MAIL = frozenset(NotificationKind) - {_K.SESSION_READY, _K.JOB_STARTED}
_QUIETLY = frozenset({_K.JOB_STARTED})
ALWAYS_SHOWN = frozenset({_K.WEBHOOK_DISABLED, _K.ACCOUNT_SECURITY})
"""In the inbox whatever the user's choices: no other channel would report it."""


def by_default(kind: NotificationKind, channel: str) -> bool:
    """Return whether a user without choices is notified of ``kind`` by ``channel``."""
    if channel == WEBHOOK:
        return kind not in _QUIETLY | ALWAYS_SHOWN
    if channel == MAIL:
        return kind in _BY_MAIL
    return kind not in _QUIETLY


ChannelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["mail"])]


class NotificationChoices(Strict):
    """Notification choices of a user. A kind or channel that is not named is as ``by_default``
    returns."""

    choices: dict[NotificationKind, dict[ChannelName, bool]] = Field(
        default_factory=dict,
        description="Whether a channel is used, by kind and channel. Omitted: the default.",
        examples=[{"job_finished": {"mail": True, "browser": True}}],
    )
    quiet_until: UtcTime | None = Field(
        None, description="Time until which only the inbox is used: no popup, mail or webhook."
    )

    def wants(self, kind: NotificationKind, channel: str) -> bool:
        """Return whether the user is notified of ``kind`` by ``channel``."""
        if channel == BROWSER and kind in ALWAYS_SHOWN:
            return True
        return self.choices.get(kind, {}).get(channel, by_default(kind, channel))


class Recipient(Frozen):
    """User who may receive notifications."""

    name: UserName
    mail: str | None = None
    admin: bool = False


class NotificationContent(Frozen):
    """Content of a notification about one event, before it is addressed to a recipient."""

    kind: NotificationKind
    level: Level = Level.INFO
    title: str
    text: str = ""
    job_id: UUID | None = None
    path: str = "/"
    """Path of the page in the portal with the details."""
    data: dict[str, Any] = Field(default_factory=dict)
    """Names and numbers for translation into another language."""
    log: tuple[str, ...] = ()
    """The last lines of the job's log."""


class Notification(Frozen):
    """Notification of one user about one event."""

    id: int
    owner: UserName
    event_id: int
    kind: NotificationKind
    level: Level
    title: str
    text: str
    job_id: UUID | None
    path: str
    data: dict[str, Any]
    created_at: UtcTime
    read_at: UtcTime | None = None


class Webhook(Frozen):
    """Webhook of a user: the URL that receives messages, without the secret."""

    id: str
    owner: UserName
    url: str
    generation: int = 1
    """Grows with each new secret."""
    created_at: UtcTime
    failures: int = 0
    """Deliveries in a row that were given up."""
    disabled_at: UtcTime | None = None
    disabled_why: str | None = None


class DeliveryState(StrEnum):
    """State of a delivery."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    """Given up."""


class Delivery(Frozen):
    """One message to a user on one channel, with the state and number of its tries."""

    id: int
    channel: str
    owner: UserName
    target: str = ""
    message: dict[str, Any]
    state: DeliveryState = DeliveryState.WAITING
    tries: int = 0
    status: int | None = None
    error: str | None = None
    created_at: UtcTime
    available_at: UtcTime
    finished_at: UtcTime | None = None


class NewDelivery(Frozen):
    """Message to a user on one channel that is to be sent."""

    channel: str
    owner: UserName
    target: str = ""
    message: dict[str, Any]


class NewNotification(Frozen):
    """Notification of one user about one event, with the deliveries that carry it."""

    owner: UserName
    event_id: int
    notice: NotificationContent
    inbox: bool = True
    popup: bool = True
    deliveries: tuple[NewDelivery, ...] = ()


def message_of(
    notice: NotificationContent, *, owner: str, event_id: int, time: str, url: str
) -> dict[str, Any]:
    """Return the message that every channel carries, and the body of a webhook."""
    return {
        "version": PAYLOAD_VERSION,
        "id": f"{event_id}-{owner}",
        "kind": notice.kind.value,
        "level": notice.level.value,
        "time": time,
        "user": owner,
        "title": notice.title,
        "text": notice.text,
        "url": url,
        "job_id": None if notice.job_id is None else str(notice.job_id),
        "data": dict(notice.data),
        "log": list(notice.log),
    }


class SessionActivity(Frozen):
    """Last activity of a session, as its agent observed it, and the warnings that were sent."""

    job_id: UUID
    active_at: UtcTime
    seen_at: UtcTime
    warned: int = 0
    warned_at: UtcTime | None = None
