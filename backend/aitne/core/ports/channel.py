"""What carries a message to a person. One file in ``adapters/channels`` is one channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aitne.core.models.base import Frozen
from aitne.core.models.notification import Webhook


class Person(Frozen):
    """Whom a channel may have to reach."""

    name: str
    mail: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    """Those that are not disabled."""


class Channel(Protocol):
    """Made with the ``Settings``. Constructing it opens nothing."""

    name: str

    @property
    def available(self) -> bool:
        """Whether the site has it. What is not available is neither offered nor used."""
        ...

    @property
    def patience_s(self) -> float:
        """How long a message is tried again before it is given up."""
        ...

    def targets(self, person: Person) -> Sequence[str]:
        """Where a message for this person goes: one delivery each, ``""`` where the person alone
        says it; nothing if it reaches them nowhere."""
        ...

    async def send(self, message: Mapping[str, Any], person: Person, target: str) -> int:
        """Send it once; the other side's status.

        Raises:
            DeliveryFailed: it was not taken; says whether another try is worth it.
        """
        ...
