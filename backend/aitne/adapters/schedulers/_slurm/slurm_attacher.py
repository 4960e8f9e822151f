"""Start of programs inside the allocation of a running job, as job steps that share its resources
(``srun --overlap``).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from aitne.adapters.schedulers._slurm.commands import environment_of
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.states import JobState
from aitne.core.ports.attacher import AttachTarget
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings

_ALLOCATED = frozenset({JobState.STARTING, JobState.RUNNING})
# Without --cpu-bind: on a cluster without binding, srun of 22.05 then loses the first byte of its input.
_OPTIONS = (
    "--quiet",
    "--overlap",
    "--nodes=1",
    "--ntasks=1",
    "--mem=0",  # all memory of the job; without it some releases allocate a separate share to a step
    "--mpi=none",
    "--chdir=/",
    "--job-name=aitne-attach",
    "--export=ALL",
)


class SlurmAttacher:
    """Implementation of ``core.ports.attacher.Attacher`` that starts a job step with srun, as the
    job's account. Slurm itself also checks that the job belongs to the account.
    """

    def __init__(self, settings: Settings, tools: Tools) -> None:
        self._site = Site(settings, tools.command)
        self._command = tools.command
        conf = settings.slurm.conf
        self._conf = {} if conf is None else {"SLURM_CONF": str(conf)}

    async def attach(self, target: AttachTarget) -> socket.socket:
        """Start the agent as a job step on the target's node, and return the socket connected to
        its standard streams.

        Raises:
            SchedulerRejected: the attempt is not running there, or belongs to another account.
            NotAllowed: the platform may not act as the account.
            RateLimited: too many programs of the account are running already.
            SchedulerUnavailable: Slurm does not answer.
            Unavailable: srun could not be started.
        """
        run = target.run
        number = self._find_plain_job_id(target, await self._site.list_live_records([run]))
        variables = await asyncio.to_thread(environment_of, run.account)
        argv = ["srun", f"--jobid={number}", f"--nodelist={target.node}", *_OPTIONS]
        argv += ["--", *target.agent, "--attach", str(target.place.directory)]
        return await self._command.start_connected(
            argv, account=run.account, env={**self._conf, **variables}
        )

    def _find_plain_job_id(self, target: AttachTarget, rows: Sequence[SchedulerJob]) -> str:
        """Return the plain job ID of the target's job or array task (such as ``15`` for ``12_3``),
        the only ID that srun accepts for a task.
        """
        run = target.run
        jobs = [
            row
            for row in rows
            if row.scheduler_id == run.scheduler_id
            and run.account in (None, row.account)
            and row.state in _ALLOCATED
        ]
        if not jobs:
            raise SchedulerRejected(
                f"Job {run.scheduler_id} does not run under this account, so nothing can be started "
                "beside it."
            )
        if target.node not in jobs[0].nodes:
            raise SchedulerRejected(
                f"Job {run.scheduler_id} does not run on {target.node} but on "
                f"{', '.join(jobs[0].nodes)}.",
                "node",
            )
        return str(jobs[0].raw["JobID"])

    async def close(self) -> None:
        """Do nothing: no resources are held."""
