"""Channels that carry messages to users. One file in ``adapters/channels`` is one channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aitne.core.models.base import Frozen
from aitne.core.models.notification import Webhook


class ChannelRecipient(Frozen):
    """A user to whom a channel may have to send messages, with mail address and webhooks."""

    name: str
    mail: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    """Webhooks that are not disabled."""


class Channel(Protocol):
    """Port that sends notifications to users in one way, such as mail. It is created with the
    ``Settings``; its creation opens no connection.
    """

    name: str

    @property
    def available(self) -> bool:
        """Return whether this site has configured the channel. An unavailable channel is not
        offered.
        """
        ...

    @property
    def patience_s(self) -> float:
        """Time for which a message is retried before it is given up, in seconds."""
        ...

    def targets(self, person: ChannelRecipient) -> Sequence[str]:
        """Return the targets at which this channel reaches the user; each gets a delivery of its
        own.

        A target is ``""`` if the user alone determines it, as with mail. The list is empty if the
        channel cannot reach the user.
        """
        ...

    async def send(self, message: Mapping[str, Any], person: ChannelRecipient, target: str) -> int:
        """Send the message to one target of the user, without retries; return the receiver's status
        code.

        Raises:
            DeliveryFailed: the receiver did not accept the message; the error states whether a
                retry may succeed.
        """
        ...
