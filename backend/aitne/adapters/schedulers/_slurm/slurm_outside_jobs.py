"""Jobs that were not submitted through the platform (for example with sbatch): lists, actions and
logs, by squeue, sacct, scancel and scontrol.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Collection, Mapping, Sequence

from aitne.adapters import job_files
from aitne.adapters.schedulers._slurm import outside_job_records, squeue_parser
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.core.errors import (
    NotAllowed,
    NotFound,
    NotSupported,
    SchedulerRejected,
    SchedulerUnavailable,
)
from aitne.core.jobs import log_path_pattern
from aitne.core.ports.job_files import LogChunk
from aitne.core.ports.outside_jobs import OutsideAction, OutsideJob, OutsideLog, OutsideRun
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.local_system.own_account import own_account_name

_ACCOUNTING_TIMEOUT_S = 60.0
_LOOK_BACK = "now-30days"
_ASK_AGAIN_S = 5.0
"""Seconds before Slurm is queried again for the log's path of a task that had not started."""
_MOST_PATHS = 1_000
_GONE = re.compile(r"Invalid job id|already completing or completed|Job has already finished")
_ID = re.compile(r"[1-9][0-9]{0,9}(?:\+[0-9]{1,4})?")
_ARGV = {
    OutsideAction.CANCEL: ("scancel",),
    OutsideAction.HOLD: ("scontrol", "hold"),
    OutsideAction.RELEASE: ("scontrol", "release"),
}


class SlurmOutside:
    """Implementation of ``core.ports.outside_jobs.OutsideScheduler`` with Slurm's commands.

    The queue is read by a separate query: it needs twice as many fields as the poll of the
    platform's own jobs, which it must neither delay nor make fail.
    """

    def __init__(self, settings: Settings, tools: Tools) -> None:
        self._site = Site(settings, tools.command)
        self._command = tools.command
        self._reader: outside_job_records.OutsideReader | None = None
        self._paths: dict[OutsideLog, tuple[float, str | None]] = {}
        """Time (monotonic) of the last query for the path of each task's log, and the path or None
        if it was unknown; oldest query first.
        """

    async def list_jobs(self, accounts: Collection[str]) -> Sequence[OutsideJob]:
        """Return the accounts' jobs that were not submitted through the platform. One squeue is
        run, and its output is parsed in a thread.
        """
        known = frozenset(accounts)
        output, mark, fields = await self._site.squeue(outside_job_records.FIELDS)
        if self._reader is None or self._reader.fields != fields:
            self._reader = outside_job_records.OutsideReader(fields)
        return await asyncio.to_thread(self._reader.read, output, mark, known)

    async def find_ended_jobs(self, runs: Sequence[OutsideRun]) -> Sequence[OutsideJob]:
        """Return the records of those jobs in ``runs`` that have ended, by one sacct.

        Raises:
            NotSupported: this Slurm has no accounting.
        """
        if not (await self._site.config()).accounting:
            raise NotSupported("This Slurm keeps no accounting.")
        numbers = {run.scheduler_id: run for run in runs if _ID.fullmatch(run.scheduler_id)}
        if not numbers:
            return ()
        output = await self._run_sacct(",".join(numbers), outside_job_records.ACCOUNTING_FIELDS)
        records = await asyncio.to_thread(
            lambda: outside_job_records.merge_records(
                outside_job_records.parse_ended_outside_jobs(output)
            )
        )
        by_run = {(run.scheduler_id, run.account): run for run in runs}
        return [
            record
            for record in records
            if record.state.is_terminal
            and (run := by_run.get((record.scheduler_id, record.account))) is not None
            and record.submitted_at >= run.submitted_at
        ]

    async def _run_sacct(self, numbers: str, fields: Sequence[str]) -> str:
        return await self._site.run_query(
            "sacct",
            "--allusers",
            "--allocations",
            "--duplicates",
            "--noheader",
            "--parsable2",
            f"--delimiter={squeue_parser.SEPARATOR}",
            f"--starttime={_LOOK_BACK}",
            f"--jobs={numbers}",
            f"--format={','.join(fields)}",
            timeout_s=_ACCOUNTING_TIMEOUT_S,
        )

    async def perform_action(self, run: OutsideRun, action: OutsideAction) -> None:
        """Cancel, hold or release the job with a command of Slurm, as the job's account. Before
        that, Slurm's record must confirm the job's account and submission time.

        Raises:
            SchedulerRejected: Slurm does not permit it.
        """
        if not _ID.fullmatch(run.scheduler_id):
            return
        output, mark, fields = await self._site.squeue(
            outside_job_records.FIELDS, f"--user={run.account}"
        )
        reader = outside_job_records.OutsideReader(fields)
        jobs = reader.read(output, mark, {run.account}, only=run.scheduler_id)
        if not any(_is_record_of_run(run, job) for job in jobs if not job.state.is_terminal):
            return
        completed = await self._site.commands.run(
            *_ARGV[action], run.scheduler_id, account=run.account, timeout_s=self._site.timeout_s
        )
        if completed.returncode == 0 or _GONE.search(completed.output_text):
            return
        message = f"Job {run.scheduler_id} cannot be changed: {completed.output_text}"
        if completed.returncode > 0 and "denied" in completed.output_text.lower():
            raise SchedulerRejected(message)
        raise SchedulerUnavailable(message)

    async def read_log(self, log: OutsideLog, *, offset: int, limit: int) -> LogChunk:
        """Return up to ``limit`` bytes of the log from byte ``offset`` on, read under the
        platform's own account.

        Raises:
            NotAllowed: the job belongs to another account, whose log only a broker can read.
        """
        if log.account != own_account_name():
            raise NotAllowed(
                f"The log belongs to {log.account}, and this platform has no broker that could "
                "read it as that account."
            )
        path = await self.find_log_path(log)
        if path is None:
            return LogChunk(data=b"", offset=0, size=0)
        return await asyncio.to_thread(job_files.read_outside_log, path, offset=offset, limit=limit)

    async def find_log_path(self, log: OutsideLog) -> str | None:
        """Return the path of the log; None if it is not known yet. For a task of an array,
        wildcards in the path's pattern are replaced, if necessary with values from Slurm's record
        of the task.
        """
        if log.task is None:
            return log.path
        if not outside_job_records.OF_RUN & log_path_pattern.list_wildcards(log.path):
            return outside_job_records.log_of_task(log.path, log.task)
        # Readers that follow a log ask several times in a second.
        asked_at, path = self._paths.get(log, (-math.inf, None))
        if path is None and time.monotonic() - asked_at > _ASK_AGAIN_S:
            record = await self._find_task_record(log)
            if record is not None:
                path = outside_job_records.log_of_task(log.path, log.task, record)
            self._paths[log] = time.monotonic(), path
            while len(self._paths) > _MOST_PATHS:
                del self._paths[next(iter(self._paths))]
        return path

    async def _find_task_record(self, log: OutsideLog) -> Mapping[str, str] | None:
        """Return the queue's or accounting's record of an array's task; None if the task has not
        started.

        Raises:
            NotFound: Slurm has no record of the task.
        """
        number, live = f"{log.scheduler_id}_{log.task}", False
        output, mark, fields = await self._site.squeue(
            squeue_parser.FIELDS, f"--user={log.account}"
        )
        for text in squeue_parser.split_records(output, mark):
            values = text.split(squeue_parser.SEPARATOR)
            row = dict(zip(fields, values, strict=False))
            if len(values) == len(fields) and row["UserName"] == log.account:
                if row["JobArrayID"] == number:
                    return row
                live |= row["JobArrayID"].startswith(f"{log.scheduler_id}_")
        if _ID.fullmatch(log.scheduler_id) and (await self._site.config()).accounting:
            fields = ("JobID", "JobIDRaw", "User", "NodeList")
            output = await self._run_sacct(number, fields)
            for line in reversed(output.splitlines()):
                row = dict(zip(fields, line.split(squeue_parser.SEPARATOR), strict=False))
                if (row["JobID"], row.get("User")) == (number, log.account):
                    return {"JobID": row["JobIDRaw"], "NodeList": row.get("NodeList", "")}
        if live:
            return None
        raise NotFound(
            "log of task",
            number,
            f"The log of task {log.task} is named by the task's own job ID or node "
            f"({log.path}), of which Slurm has no record any more.",
        )

    async def close(self) -> None:
        """Do nothing: no resources are held."""


def _is_record_of_run(run: OutsideRun, job: OutsideJob) -> bool:
    """Return True if Slurm's record belongs to the run: ID and account are equal, and so are the
    submission times, unless the job was requeued, which changes its time.
    """
    same = (job.scheduler_id, job.account) == (run.scheduler_id, run.account)
    return same and (job.submitted_at == run.submitted_at or job.restart_count > 0)
