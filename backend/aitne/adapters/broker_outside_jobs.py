"""Access through the broker to jobs that were not submitted through the platform, for example with
sbatch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aitne.adapters.broker_scheduler import BrokerClient, convert_refusals_to_rejections
from aitne.core.broker.outside_job_verbs import OutsideResult
from aitne.core.broker.protocol import ReadLogResult
from aitne.core.broker.verb_base_models import EmptyResult
from aitne.core.errors import NotAllowed
from aitne.core.ports.job_files import LogChunk
from aitne.core.ports.outside_jobs import OutsideAction, OutsideJob, OutsideLog, OutsideRun
from aitne.core.settings import Settings


class BrokerOutside:
    """Implementation of ``core.ports.outside_jobs.OutsideJobs`` through the broker, which acts as each
    job's account.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)

    async def list_jobs(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        """Return the jobs of these Unix accounts that were not submitted through the platform."""
        args = {"accounts": sorted(accounts)}
        return (await self._client.call("outside_list", args, OutsideResult)).jobs

    async def find_ended_jobs(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        """Return the records of those jobs in ``runs`` that have ended according to accounting.
        Raises ``NotSupported`` if the scheduler has no accounting.
        """
        args = {"runs": [run.model_dump(mode="json") for run in runs]}
        return (await self._client.call("outside_ended", args, OutsideResult)).jobs

    async def perform_action(self, run: OutsideRun, action: OutsideAction) -> None:
        """Cancel, hold or release the job as its account. Raises ``SchedulerRejected`` if the
        scheduler or the broker does not permit it.
        """
        args = {"run": run.model_dump(mode="json"), "action": action}
        with convert_refusals_to_rejections():
            await self._client.call("outside_act", args, EmptyResult)

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        """Return up to ``limit`` bytes of the log from byte ``offset`` on.

        Raises:
            NotAllowed: the broker has not confirmed (sealed) that Slurm named this path.
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
