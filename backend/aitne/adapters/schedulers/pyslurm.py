"""Slurm through its C library (with pyslurm) for polling the queue, and through its commands for
everything else.

It is used only where ``scheduler = "pyslurm"`` is set, on a cluster with Slurm 26.05 whose queue is to
be polled without starting a program. pyslurm reads the queue under the account of this process. It
works with only one release of Slurm: 25.11.2 of PyPI with 26.05, built with that release's headers
and a ``slurm/slurm_version.h`` that names 25.11, the only release that its set-up accepts.

The commands are used where pyslurm is insufficient: it reports the allocated GRES of nodes only if
the site counts them as TRES; it submits without the variables, limits and umask that sbatch gives a
job, and only under the account of this process; it subtracts 128 from exit codes above 127.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from aitne.adapters.schedulers._slurm.libslurm import pyslurm_records
from aitne.adapters.schedulers._slurm.libslurm.pyslurm_client import Library, WorkerHello
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.errors import SchedulerUnavailable, SetupError
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings

FITS = "26.05"
"""Release of Slurm with which pyslurm 25.11, built as described above, was tested."""
INTERFACE = 45
"""Interface number of that release's libslurm."""
_INSTALL = "Install pyslurm 25.11.2 into the platform's environment, built with the headers of Slurm 26.05."
_INSTEAD = 'Use scheduler = "slurm" or "slurm_cli", which work with every release.'


class PyslurmScheduler(SlurmCliScheduler):
    """Implementation of ``core.ports.scheduler.Scheduler`` that polls with pyslurm; all other
    methods use Slurm's commands.
    """

    name = "pyslurm"

    def __init__(self, settings: Settings, tools: Tools) -> None:
        super().__init__(settings, tools)
        self._library = Library(settings.slurm.conf)
        self._release: str | None = None
        self._known: dict[bytes, Sequence[SchedulerJob]] = {}

    async def start(self) -> Sequence[str]:
        """Start like the base class, and check that pyslurm is installed and compatible.

        Raises:
            SetupError: the commands or pyslurm are missing, or pyslurm is incomplete or
                incompatible.
        """
        if self._settings.slurm.command_prefix:
            raise SetupError(
                "slurm.command_prefix leads into another root file system, and pyslurm works only in "
                f"this one. {_INSTEAD}"
            )
        notes = await super().start()
        try:
            check_pyslurm(await self._library.restart())
            await self._check_slurm_release()
        except SetupError:
            await self.close()
            raise
        except SchedulerUnavailable:
            # The notes contain this already. The first answered poll repeats the check.
            return notes
        return notes

    async def close(self) -> None:
        """Terminate pyslurm's process and close the base adapter."""
        await self._library.close()
        await super().close()

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the platform's jobs that slurmctld holds; ended jobs are included for MinJobAge
        seconds after their end. If a job failed, squeue is also run, which reports its exit code
        correctly.
        """
        if self._release is None:
            try:
                await self._check_slurm_release()
            except SetupError as error:
                raise SchedulerUnavailable(error.message) from error
        new = await self._library.query_jobs(self._site.timeout_s)
        old_rows = self._known
        rows = {
            line: old_rows[line]
            if line in old_rows
            else pyslurm_records.to_scheduler_jobs(json.loads(line))
            for line in new
        }
        fresh = [line for line in rows if line not in old_rows]
        if any(pyslurm_records.has_doubtful_exit_code(job) for line in fresh for job in rows[line]):
            ends = {_make_job_key(job): job for job in await super().poll()}
            for line in fresh:
                rows[line] = [
                    _add_exit_code(job, ends.get(_make_job_key(job))) for job in rows[line]
                ]
        self._known = rows
        return [job for jobs in rows.values() for job in jobs]

    async def _check_slurm_release(self) -> None:
        """Check that slurmctld has the supported release; raises ``SetupError`` otherwise."""
        release = (await self._get_config()).release
        if not release.startswith(f"{FITS}."):
            raise SetupError(
                f"This Slurm is {release}, and pyslurm supports only {FITS}. {_INSTEAD}"
            )
        self._release = release


def check_pyslurm(hello: WorkerHello) -> None:
    """Check that this version of pyslurm is usable; raises ``SetupError`` otherwise."""
    if hello.missing:
        raise SetupError(f"pyslurm {hello.pyslurm} lacks {', '.join(hello.missing)}. {_INSTALL}")
    if hello.interface != INTERFACE:
        raise SetupError(
            f"pyslurm {hello.pyslurm} uses libslurm.so.{hello.interface} here, and supports only Slurm "
            f"{FITS} with libslurm.so.{INTERFACE}. {_INSTEAD}"
        )


def _make_job_key(job: SchedulerJob) -> tuple[object, ...]:
    return job.scheduler_id, job.job_id, job.attempt, job.restart_count


def _add_exit_code(job: SchedulerJob, row: SchedulerJob | None) -> SchedulerJob:
    """Return ``job`` with the exit code in squeue's record ``row``; without an exit code if squeue
    no longer has the job (``row`` is None).
    """
    if not pyslurm_records.has_doubtful_exit_code(job):
        return job
    code, signal = (None, None) if row is None else (row.exit_code, row.signal)
    return job.model_copy(update={"exit_code": code, "signal": signal})
