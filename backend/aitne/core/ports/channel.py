"""Channels that deliver messages to users. Each file in ``adapters/channels`` implements one
channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aitne.core.models.base import Frozen
from aitne.core.models.notification import Webhook


class ChannelRecipient(Frozen):
    """User who may receive messages on a channel, with mail address and webhooks."""

    name: str
    mail: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    """Webhooks of the user that are not disabled."""


class Channel(Protocol):
    """Port that sends notifications to users in one way, such as mail. It is created with the
    ``Settings``; its creation opens no connection.
    """

    name: str

    @property
    def is_available(self) -> bool:
        """Return whether this site has configured the channel. An unavailable channel is not
        offered.
        """
        ...

    @property
    def retry_period_s(self) -> float:
        """Seconds for which the delivery of a message is retried."""
        ...

    def list_targets(self, person: ChannelRecipient) -> Sequence[str]:
        """Return the destinations of the user's messages on this channel; each one gets a delivery
        of its own.

        A destination is ``""`` if the user alone determines it, as with mail. The list is empty if
        the channel cannot reach the user.
        """
        ...

    async def send(self, message: Mapping[str, Any], person: ChannelRecipient, target: str) -> int:
        """Send the message once to one destination of the user; return the receiver's status code.

        Raises:
            DeliveryFailed: the receiver did not accept the message; the error states whether a
                retry may succeed.
        """
        ...
