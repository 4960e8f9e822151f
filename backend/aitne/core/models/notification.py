"""Notifications, their channels and their deliveries."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from aitne.core.models.base import Frozen, Strict, UserName, UtcTime

BROWSER, MAIL, WEBHOOK = "browser", "mail", "webhook"
"""Names of the channels: ``browser`` is the list of notifications in the portal, the others are
adapters.
"""
PAYLOAD_VERSION = 1
"""Version of the request body that webhooks receive. Within a version, fields are only added."""


class NotificationKind(StrEnum):
    """Kind of notification, for which users choose channels."""

    SESSION_READY = "session_ready"
    SESSION_EXPIRING = "session_expiring"
    SESSION_IDLE = "session_idle"
    SESSION_ENDED = "session_ended"
    """A session ended by itself, or was ended by the platform or by another user than its owner."""
    JOB_STARTED = "job_started"
    JOB_FINISHED = "job_finished"
    JOB_FAILED = "job_failed"
    GPU_IDLE = "gpu_idle"
    """A batch job leaves its GPUs almost unused."""
    JOB_MESSAGE = "job_message"
    """The program of a job or session has sent its owner a message."""
    PROJECT_INVITED = "project_invited"
    PROJECT_REQUESTED = "project_requested"
    PROJECT_EXPIRING = "project_expiring"
    ANNOUNCEMENT = "announcement"
    MAINTENANCE = "maintenance"
    WEBHOOK_DISABLED = "webhook_disabled"
    ALERT = "alert"
    """An alert of the monitoring fires or is resolved; only for administrators."""
    ACCOUNT_SECURITY = "account_security"
    """There was a sign-in from an unknown browser, or the credentials changed: a new token or
    password, or a removed second factor.
    """


class Level(StrEnum):
    """Level of urgency of a notification."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"


_K = NotificationKind
_BY_MAIL = frozenset(NotificationKind) - {_K.SESSION_READY, _K.JOB_STARTED}
_QUIETLY = frozenset({_K.JOB_STARTED})
ALWAYS_SHOWN = frozenset({_K.WEBHOOK_DISABLED, _K.ACCOUNT_SECURITY})
"""Kinds that are always shown in the portal, whatever the user's choices, because no other channel
may report them.
"""


def is_sent_by_default(kind: NotificationKind, channel: str) -> bool:
    """Return whether notifications of ``kind`` are sent on ``channel`` to a user who has not
    chosen.
    """
    if channel == WEBHOOK:
        return kind not in _QUIETLY | ALWAYS_SHOWN
    if channel == MAIL:
        return kind in _BY_MAIL
    return kind not in _QUIETLY


ChannelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["mail"])]


class NotificationChoices(Strict):
    """A user's choices of channels for each kind of notification. ``is_sent_by_default`` applies where
    there is no choice.
    """

    choices: dict[NotificationKind, dict[ChannelName, bool]] = Field(
        default_factory=dict,
        description="Whether a channel is used, by kind and channel. Omitted: the default.",
        examples=[{"job_finished": {"mail": True, "browser": True}}],
    )
    quiet_until: UtcTime | None = Field(
        None, description="Time until which only the inbox is used: no popup, mail or webhook."
    )

    def wants(self, kind: NotificationKind, channel: str) -> bool:
        """Return whether notifications of ``kind`` are sent to the user on ``channel``."""
        if channel == BROWSER and kind in ALWAYS_SHOWN:
            return True
        return self.choices.get(kind, {}).get(channel, is_sent_by_default(kind, channel))


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
    """Path of the page in the portal that shows details."""
    data: dict[str, Any] = Field(default_factory=dict)
    """Names and numbers that occur in the text, for its translation."""
    log: tuple[str, ...] = ()
    """Last lines of the job's log; empty if they are not part of the notification."""


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
    """Number of the secret; each new secret increases it."""
    created_at: UtcTime
    failures: int = 0
    """Number of consecutive messages that could not be delivered."""
    disabled_at: UtcTime | None = None
    """Time at which the webhook was disabled; None: it is enabled."""
    disabled_why: str | None = None
    """Reason why it was disabled, as a sentence; None: it is enabled."""


class DeliveryState(StrEnum):
    """State of a delivery."""

    WAITING = "waiting"
    SENT = "sent"
    FAILED = "failed"
    """All attempts failed, and there are no further ones."""


class Delivery(Frozen):
    """One message to a user on one channel, with the state of its delivery."""

    id: int
    channel: str
    """Name of the channel, such as ``mail``."""
    owner: UserName
    target: str = ""
    """Destination on the channel, such as the ID of a webhook; empty if the user determines it."""
    message: dict[str, Any]
    state: DeliveryState = DeliveryState.WAITING
    tries: int = 0
    """Number of attempts so far."""
    status: int | None = None
    """Status code of the receiver's last response; None: no response."""
    error: str | None = None
    """Reason why the last attempt failed; None: it succeeded, or there was no attempt."""
    created_at: UtcTime
    available_at: UtcTime
    """Time from which the next attempt may be made."""
    finished_at: UtcTime | None = None
    """Time at which the delivery succeeded or finally failed; None: it is still waiting."""


class NewDelivery(Frozen):
    """Message that is to be sent to a user on one channel."""

    channel: str
    owner: UserName
    target: str = ""
    """Destination on the channel, such as the ID of a webhook; empty if the user determines it."""
    message: dict[str, Any]


class NewNotification(Frozen):
    """Notification of one user about one event, with the deliveries that carry it."""

    owner: UserName
    event_id: int
    notice: NotificationContent
    inbox: bool = True
    """Whether the notification is stored in the user's inbox."""
    popup: bool = True
    """Whether open pages of the portal show the notification as a pop-up."""
    deliveries: tuple[NewDelivery, ...] = ()
    """Messages to send on other channels."""


def make_message(
    content: NotificationContent, *, owner: str, event_id: int, time: str, url: str
) -> dict[str, Any]:
    """Return the message that all channels send, which is also the request body of webhooks."""
    return {
        "version": PAYLOAD_VERSION,
        "id": f"{event_id}-{owner}",
        "kind": content.kind.value,
        "level": content.level.value,
        "time": time,
        "user": owner,
        "title": content.title,
        "text": content.text,
        "url": url,
        "job_id": None if content.job_id is None else str(content.job_id),
        "data": dict(content.data),
        "log": list(content.log),
    }


class SessionActivity(Frozen):
    """Last activity of a session as reported by its agent, and the warnings sent since."""

    job_id: UUID
    active_at: UtcTime
    """Time of the last activity."""
    seen_at: UtcTime
    """Time at which the agent reported it."""
    warned: int = 0
    """Number of warnings sent since the last activity."""
    warned_at: UtcTime | None = None
    """Time of the first of these warnings; None: no warning."""
