"""Slurm through its C library where that is the better way, and through its commands for all else.

pyslurm reads the queue, as whoever runs this process, without starting a program for it. It works with one
release of Slurm alone: 25.11.2 of PyPI, built as ``scripts/pyslurm_on_sid.py`` builds it, with 26.05.

The commands do what it does not do well. Of nodes it knows no GRES in use unless the site counts them as TRES;
it submits without what sbatch gives a job (its own variables, limits and umask), and only as whoever runs this
process; from exit codes above 127 it takes 128.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from aitne.adapters.schedulers._slurm.libslurm import records
from aitne.adapters.schedulers._slurm.libslurm.library import Hello, Library
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.errors import SchedulerUnavailable, SetupError
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.ports.tools import Tools
from aitne.core.settings import Settings

FITS = "26.05"
"""The release of Slurm that pyslurm 25.11 was tried with, built as described."""
INTERFACE = 45
"""That of its libslurm."""
_INSTALL = (
    "Install pyslurm 25.11.2 into the platform's environment, as scripts/pyslurm_on_sid.py does."
)
_INSTEAD = 'Use scheduler = "slurm" or "slurm_cli", which work with every release.'


class PyslurmScheduler(SlurmCliScheduler):
    """Implementation of ``core.ports.scheduler.Scheduler``; all other methods use Slurm's
    commands.
    """

    name = "pyslurm"

    def __init__(self, settings: Settings, tools: Tools) -> None:
        super().__init__(settings, tools)
        self._library = Library(settings.slurm.conf)
        self._release: str | None = None
        self._known: dict[bytes, Sequence[SchedulerJob]] = {}

    async def start(self) -> Sequence[str]:
        """Start as with the commands, and check that pyslurm is installed and fits.

        Raises:
            SetupError: the commands are missing; pyslurm is, or lacks something, or does not fit.
        """
        if self._settings.slurm.command_prefix:
            raise SetupError(
                "slurm.command_prefix leads into another root file system, and pyslurm works in "
                f"this one alone. {_INSTEAD}"
            )
        notes = await super().start()
        try:
            check(await self._library.hello())
            await self._compare()
        except SetupError:
            await self.close()
            raise
        except SchedulerUnavailable:
            # Among the notes already. The first poll that is answered makes up for it.
            return notes
        return notes

    async def close(self) -> None:
        """End pyslurm's process and close the base adapter."""
        await self._library.close()
        await super().close()

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return all jobs that slurmctld holds, ended ones for MinJobAge; run squeue too when a job
        failed.
        """
        if self._release is None:
            try:
                await self._compare()
            except SetupError as error:
                raise SchedulerUnavailable(error.message) from error
        new = await self._library.jobs(self._site.timeout_s)
        known = self._known
        found = {
            line: known[line] if line in known else records.rows(json.loads(line)) for line in new
        }
        fresh = [line for line in found if line not in known]
        if any(records.doubtful(job) for line in fresh for job in found[line]):
            ends = {_key(job): job for job in await super().poll()}
            for line in fresh:
                found[line] = [_with_end(job, ends.get(_key(job))) for job in found[line]]
        self._known = found
        return [job for jobs in found.values() for job in jobs]

    async def _compare(self) -> None:
        """Raise ``SetupError`` unless slurmctld is of the release that fits."""
        release = (await self._config()).release
        if not release.startswith(f"{FITS}."):
            raise SetupError(f"This Slurm is {release}, and pyslurm fits {FITS} alone. {_INSTEAD}")
        self._release = release


def check(hello: Hello) -> None:
    """Raise ``SetupError`` unless this pyslurm is usable."""
    if hello.missing:
        raise SetupError(f"pyslurm {hello.pyslurm} lacks {', '.join(hello.missing)}. {_INSTALL}")
    if hello.interface != INTERFACE:
        raise SetupError(
            f"pyslurm {hello.pyslurm} works with libslurm.so.{hello.interface} here, and fits Slurm "
            f"{FITS}, libslurm.so.{INTERFACE}, alone. {_INSTEAD}"
        )


def _key(job: SchedulerJob) -> tuple[object, ...]:
    return job.scheduler_id, job.job_id, job.attempt, job.restart_count


def _with_end(job: SchedulerJob, said: SchedulerJob | None) -> SchedulerJob:
    """Return the job with the exit code of squeue; without one if squeue no longer has the job."""
    if not records.doubtful(job):
        return job
    code, signal = (None, None) if said is None else (said.exit_code, said.signal)
    return job.model_copy(update={"exit_code": code, "signal": signal})
