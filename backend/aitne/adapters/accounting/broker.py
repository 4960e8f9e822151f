"""Accounting through the broker: the adapter itself lives there, with an operator's rights."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from aitne.adapters.broker import BrokerClient
from aitne.core.broker_args import Done
from aitne.core.broker_protocol import Used
from aitne.core.models.limits import InUse, Usage
from aitne.core.ports.accounting import Associations, Change
from aitne.core.settings import Settings


class BrokerAccounting:
    """Fulfils ``core.ports.accounting.Accounting`` over the socket."""

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)

    async def read(self) -> Associations:
        """See the port."""
        return await self._client.call("accounting_read", {}, Associations)

    async def apply(self, changes: Sequence[Change]) -> None:
        """See the port. Raises ``NotAllowed`` also for a user that the broker acts for no more."""
        said = [each.model_dump(mode="json") for each in changes]
        await self._client.call("accounting_apply", {"changes": said}, Done)

    async def usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        """See the port."""
        args = {"start": start.isoformat(), "end": end.isoformat()}
        return (await self._client.call("accounting_usage", args, Used)).rows

    async def in_use(self) -> InUse:
        """See the port."""
        return await self._client.call("accounting_in_use", {}, InUse)

    async def close(self) -> None:
        """Hang up."""
        await self._client.close()
