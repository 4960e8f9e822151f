"""Accounting through the broker, which runs the Slurm adapter with the rights of a Slurm operator."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from typing_extensions import override

from aitne.adapters.broker_scheduler import BrokerClient
from aitne.core.broker.protocol import EnergyResult, UsageResult
from aitne.core.broker.verb_base_models import EmptyResult
from aitne.core.models.limits import LimitUsage, Usage
from aitne.core.ports.accounting import Accounting, Associations, Change, JobEnergy
from aitne.core.settings import Settings


class BrokerAccounting(Accounting):
    """Implementation of ``core.ports.accounting.Accounting`` that sends every call to the
    broker.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)

    @override
    async def read_associations(self) -> Associations:
        return await self._client.call("accounting_read", {}, Associations)

    @override
    async def apply_changes(self, changes: Sequence[Change]) -> None:
        documents = [change.model_dump(mode="json") for change in changes]
        await self._client.call("accounting_apply", {"changes": documents}, EmptyResult)

    @override
    async def read_usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        args = {"start": start.isoformat(), "end": end.isoformat()}
        return (await self._client.call("accounting_usage", args, UsageResult)).rows

    @override
    async def read_energy(self, start: datetime, end: datetime) -> Sequence[JobEnergy]:
        args = {"start": start.isoformat(), "end": end.isoformat()}
        return (await self._client.call("accounting_energy", args, EnergyResult)).rows

    @override
    async def read_limit_usage(self) -> LimitUsage:
        return await self._client.call("accounting_in_use", {}, LimitUsage)

    async def close(self) -> None:
        """Close the broker connection."""
        await self._client.close()
