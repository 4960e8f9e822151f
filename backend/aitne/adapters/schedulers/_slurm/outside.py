"""Jobs that users submitted to Slurm themselves: by squeue, sacct and scancel."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence

from aitne.adapters import files
from aitne.adapters.schedulers._slurm import outside_records, queue
from aitne.adapters.schedulers._slurm.site import Site
from aitne.core.errors import NotAllowed, NotSupported, SchedulerRejected, SchedulerUnavailable
from aitne.core.ports.files import LogChunk
from aitne.core.ports.outside import OutsideAction, OutsideJob, OutsideLog, OutsideRun
from aitne.core.ports.tools import Tools
from aitne.core.settings import Settings
from aitne.host.account import own_account_name

_ACCOUNTING_TIMEOUT_S = 60.0
_LOOK_BACK = "now-30days"
_GONE = re.compile(r"Invalid job id|already completing or completed|Job has already finished")
_ID = re.compile(r"[1-9][0-9]{0,9}(?:\+[0-9]{1,4})?")
_ARGV = {
    OutsideAction.CANCEL: ("scancel",),
    OutsideAction.HOLD: ("scontrol", "hold"),
    OutsideAction.RELEASE: ("scontrol", "release"),
}


class SlurmOutside:
    """Implementation of ``core.ports.outside.OutsideJobs`` with Slurm's commands.

    The queue is read by a query of its own: it has twice the fields of the poll, and neither its
    length nor a failure may delay the platform's own jobs.
    """

    def __init__(self, settings: Settings, tools: Tools) -> None:
        self._site = Site(settings, tools.command)
        self._command = tools.command
        self._reader: outside_records.OutsideReader | None = None

    async def list(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        """Return the jobs of the accounts by one squeue, parsed in a thread."""
        known = frozenset(accounts)
        output, mark, fields = await self._site.squeue(outside_records.FIELDS)
        if self._reader is None or self._reader.fields != fields:
            self._reader = outside_records.OutsideReader(fields)
        return await asyncio.to_thread(self._reader.read, output, mark, known)

    async def ended(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        """Return the ended jobs among ``runs``, by one sacct.

        Raises:
            NotSupported: this Slurm has no accounting.
        """
        if not (await self._site.config()).accounting:
            raise NotSupported("This Slurm keeps no accounting.")
        numbers = {run.scheduler_id: run for run in runs if _ID.fullmatch(run.scheduler_id)}
        if not numbers:
            return ()
        output = await self._site.ask(
            "sacct",
            "--allusers",
            "--allocations",
            "--duplicates",
            "--noheader",
            "--parsable2",
            f"--delimiter={queue.SEPARATOR}",
            f"--starttime={_LOOK_BACK}",
            f"--jobs={','.join(numbers)}",
            f"--format={','.join(outside_records.ACCOUNTING_FIELDS)}",
            timeout_s=_ACCOUNTING_TIMEOUT_S,
        )
        records = await asyncio.to_thread(
            lambda: outside_records.fold(outside_records.parse_ended(output))
        )
        by_run = {(run.scheduler_id, run.account): run for run in runs}
        return [
            record
            for record in records
            if record.state.terminal
            and (run := by_run.get((record.scheduler_id, record.account))) is not None
            and record.submitted_at >= run.submitted_at
        ]

    async def act(self, run: OutsideRun, action: OutsideAction) -> None:
        """Carry out the action by a command of Slurm as the job's account, after Slurm's record has
        confirmed account and submission.

        Raises:
            SchedulerRejected: Slurm does not permit it.
        """
        if not _ID.fullmatch(run.scheduler_id):
            return
        output, mark, fields = await self._site.squeue(
            outside_records.FIELDS, f"--user={run.account}"
        )
        reader = outside_records.OutsideReader(fields)
        jobs = reader.read(output, mark, {run.account}, only=run.scheduler_id)
        if not any(_is_of(run, job) for job in jobs if not job.state.terminal):
            return
        completed = await self._site.commands.run(
            *_ARGV[action], run.scheduler_id, account=run.account, timeout_s=self._site.timeout_s
        )
        if completed.returncode == 0 or _GONE.search(completed.said):
            return
        message = f"Job {run.scheduler_id} cannot be changed: {completed.said}"
        if completed.returncode > 0 and "denied" in completed.said.lower():
            raise SchedulerRejected(message)
        raise SchedulerUnavailable(message)

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        """Read the log as this process's own account.

        Raises:
            NotAllowed: the job belongs to another account, as which only a broker can read.
        """
        if log.account != own_account_name():
            raise NotAllowed(
                f"The log belongs to {log.account}, and this platform has no broker that could "
                "read it as that account."
            )
        return await asyncio.to_thread(files.read_path, log.path, offset=offset, limit=limit)

    async def close(self) -> None:
        """Do nothing: no resources are held."""


def _is_of(run: OutsideRun, job: OutsideJob) -> bool:
    """Return whether the record is that of the run: a requeue gives a job a new time."""
    same = (job.scheduler_id, job.account) == (run.scheduler_id, run.account)
    return same and (job.submitted_at == run.submitted_at or job.restart_count > 0)
