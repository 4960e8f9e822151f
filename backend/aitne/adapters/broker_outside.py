"""Jobs from outside by the broker."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aitne.adapters.broker import BrokerClient, refusals_are_rejections
from aitne.core.broker.arguments import EmptyResult
from aitne.core.broker.outside import OutsideResult
from aitne.core.broker.protocol import ReadLogResult
from aitne.core.errors import NotAllowed
from aitne.core.ports.files import LogChunk
from aitne.core.ports.outside import OutsideAction, OutsideJob, OutsideLog, OutsideRun
from aitne.core.settings import Settings


class BrokerOutside:
    """Implementation of ``core.ports.outside.OutsideJobs`` through the broker, which acts as the
    jobs' accounts.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)

    async def list(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        """Return the jobs of these accounts."""
        args = {"accounts": sorted(accounts)}
        return (await self._client.call("outside_list", args, OutsideResult)).jobs

    async def ended(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        """Return the ended jobs among ``runs``. Raises ``NotSupported``."""
        args = {"runs": [run.model_dump(mode="json") for run in runs]}
        return (await self._client.call("outside_ended", args, OutsideResult)).jobs

    async def act(self, run: OutsideRun, action: OutsideAction) -> None:
        """Carry out the action as the job's account. Raises ``SchedulerRejected``."""
        args = {"run": run.model_dump(mode="json"), "action": action}
        with refusals_are_rejections():
            await self._client.call("outside_act", args, EmptyResult)

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        """Return a piece of the log.

        Raises:
            NotAllowed: the broker has not sealed the path.
            Unavailable: the log cannot be read.
        """
        if log.seal is None:
            raise NotAllowed(
                "The log is not shown: the job was recorded while the platform had no broker."
            )
        args = {"log": log.model_dump(mode="json"), "offset": offset, "limit": limit}
        read = await self._client.call("outside_log", args, ReadLogResult)
        return LogChunk(data=read.data, offset=read.offset, size=read.size)

    async def close(self) -> None:
        """Close the connections to the broker."""
        await self._client.close()
