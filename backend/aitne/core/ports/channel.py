"""Channels that carry messages to users. One file in ``adapters/channels`` is one channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aitne.core.models.base import Frozen
from aitne.core.models.notification import Webhook


class ChannelRecipient(Frozen):
    """User that a channel may have to reach."""

    name: str
    mail: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    """Webhooks that are not disabled."""


class Channel(Protocol):
    """Channel for messages, created with the ``Settings``. Constructing it opens nothing."""

    name: str

    @property
    def available(self) -> bool:
        """Return whether the site has it. An unavailable channel is neither offered nor used."""
        ...

    @property
    def patience_s(self) -> float:
        """Time for which a message is retried before it is given up, in seconds."""
        ...

    def targets(self, person: ChannelRecipient) -> Sequence[str]:
        """Return the targets of a message for this user: one delivery each, ``""`` where the user
        alone determines the target; empty if the channel does not reach the user."""
        ...

    async def send(self, message: Mapping[str, Any], person: ChannelRecipient, target: str) -> int:
        """Send the message once; return the receiver's status.

        Raises:
            DeliveryFailed: the receiver did not accept the message; the error states whether a
                retry may succeed.
        """
        ...
