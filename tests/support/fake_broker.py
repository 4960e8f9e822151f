"""A real broker process whose Slurm is kept in memory: ``python -m tests.support.fake_broker --config F``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

from aitne.broker.main import main
from aitne.core.errors import SchedulerRejected
from aitne.core.models.cluster import Cluster
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from tests.support.fakes import FakeScheduler


class InMemory(FakeScheduler):
    """Writes the job's files as its account, as Slurm's adapters do. A job's name may make it ail."""

    def __init__(self, settings: Settings, tools: Tools) -> None:
        super().__init__()
        self._tools = tools
        self._settings = settings

    async def start(self) -> Sequence[str]:
        """Return a note that names the jobs folder of the settings."""
        return (f"jobs lie in {self._settings.slurm.jobs_dir}",)

    async def read_cluster(self) -> Cluster:
        """Return a cluster whose node shows the number of polls as its used CPUs."""
        found = await super().read_cluster()
        node = found.nodes[0].model_copy(update={"cpu_used": self.polls})
        return found.model_copy(update={"nodes": (node,)})

    async def submit(self, request: SubmitRequest) -> str:
        """Accept the job; delay, exit or refuse as its name says."""
        place = JobLocation(
            job_id=request.job_id,
            attempt=request.attempt,
            folder=str(PurePath(request.job_dir).parent),
            account=request.account,
        )
        await self._tools.files.create_attempt_folder(place, request.files)
        scheduler_id = self._accept(request)
        if request.name == "dies":
            os._exit(9)
        if request.name == "slow":
            await asyncio.sleep(30)
        if request.name == "refused":
            raise SchedulerRejected("Invalid partition name specified", "slurm.partition")
        if request.name == "bug":
            raise RuntimeError("a mistake of ours")
        return scheduler_id


if __name__ == "__main__":
    sys.exit(main(InMemory))
