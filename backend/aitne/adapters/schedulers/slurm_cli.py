"""Slurm through its own commands, of any release: sbatch, squeue, sacct, scancel, scontrol, sacctmgr.

Queries about the jobs of all users run under the account that reads the queue; commands that change a
job run under the account of the job.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePath

from aitne.adapters.accounting.slurm import SlurmAccounting
from aitne.adapters.schedulers._slurm import command_errors, job_comment
from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.adapters.schedulers._slurm.slurm_attacher import SlurmAttacher
from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig
from aitne.adapters.schedulers._slurm.slurm_outside_jobs import SlurmOutside
from aitne.adapters.schedulers._slurm.slurm_queries import Site
from aitne.adapters.schedulers._slurm.submission_failure import SubmissionFailure
from aitne.core.errors import (
    CommandTimeout,
    InvalidInput,
    NotAllowed,
    SchedulerRejected,
    SchedulerUnavailable,
    SetupError,
    SubmitUncertain,
    SubmitUnclear,
    Unavailable,
)
from aitne.core.jobs.job_folder_layout import SCRIPT
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster
from aitne.core.ports.command import Completed
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import (
    Forecast,
    Run,
    SchedulerCapabilities,
    SchedulerJob,
    SubmitRequest,
)
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.core.units import format_duration, format_slurm_time
from aitne.local_system.own_account import own_account_name

_GONE = re.compile(
    r"Invalid job id|already completing or completed|Job has already finished"
    r"|Job is not (?:running|pending nor running)"
)
_STARTED = re.compile(r"Job is no longer pending|Invalid job id|Job has already finished")
_TASK_STARTED = re.compile(rf"(?:^|\s)[0-9]+_\S+: (?:No error|{_STARTED.pattern})")
_DENIED = re.compile(r"[Pp]ermission denied|Access denied|Invalid user id")
_ALLOCATED = frozenset({JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED})


class SlurmCliScheduler:
    """Implementation of ``core.ports.scheduler.Scheduler`` with Slurm's commands alone."""

    name = "slurm_cli"
    capabilities = SchedulerCapabilities(
        title="Slurm",
        remote=True,
        runs_as_users=True,
        shared=True,
        drains=True,
        partitions=True,
        slurm_options=True,
        limits=False,
        decides_amounts=True,
        topology=True,
    )
    attacher = SlurmAttacher
    accounting = SlurmAccounting
    outside = SlurmOutside
    settle_s: float

    def __init__(self, settings: Settings, tools: Tools) -> None:
        self._settings = settings
        self._files = tools.files
        self._site = Site(settings, tools.command)
        self._commands = self._site.commands
        self.settle_s = self._site.settle_s

    # --- start and stop --------------------------------------------------------------------------

    async def start(self) -> Sequence[str]:
        """Read the configuration of this Slurm and return notes for the administrator. If slurmctld
        does not answer, no error is raised.

        Raises:
            SetupError: Slurm's commands are missing.
        """
        try:
            config = await self._get_config()
            account = self._settings.slurm.operator or own_account_name()
            sees_all = "jobs" not in config.private or await self._sees_all(config, account)
        except SchedulerUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, Unavailable) and not isinstance(cause, CommandTimeout):
                raise SetupError(error.message) from error
            return [f"Slurm does not answer now ({error.message}). Jobs wait here until it does."]
        return [*config.list_notes(sees_all=sees_all, account=account)]

    async def _sees_all(self, config: SlurmConfig, account: str) -> bool:
        """Return True if ``account``, under which the queue is read, sees all users' jobs in spite
        of PrivateData=jobs.
        """
        if account in ("root", config.slurm_user):
            return True
        if not config.accounting:
            return False
        level = await self._site.run_query(
            "sacctmgr", "-nP", "show", "user", f"name={account}", "format=adminlevel"
        )
        return level.strip() in ("Operator", "Administrator")

    async def _get_config(self) -> SlurmConfig:
        config = await self._site.config()
        self.settle_s = self._site.settle_s
        return config

    async def close(self) -> None:
        """Do nothing: no resources are held."""

    # --- queries ---------------------------------------------------------------------------------

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the platform's jobs that slurmctld holds, by one squeue; ended jobs are included
        for MinJobAge seconds after their end.
        """
        return await self._site.poll()

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of these attempts, found by job name: first in the queue, then in
        accounting for those that are not in the queue.
        """
        return await self._site.find_records(runs)

    async def read_cluster(self) -> Cluster:
        """Return the cluster's nodes, partitions and reservations, and the names of its QOS."""
        return await self._site.cluster()

    async def read_topology(self) -> str:
        """Return the output of ``scontrol show topology``; see ``TopologyReporter``."""
        return await self._site.topology()

    async def wait_for_change(self) -> None:
        """Never return: Slurm's commands do not signal changes."""
        await asyncio.Event().wait()

    # --- submission ------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> str:
        """Write the job's files, then submit it by sbatch as its account.

        sbatch has no option for ``max_requeues``; the restart count is part of every poll, and the
        controller ends a job that was restarted too often.

        Raises:
            SchedulerRejected: Slurm rejects the job, or would accept it but could never run it.
            SubmitUncertain: sbatch failed or was terminated after it may have sent the job.
            SchedulerUnavailable: the job was not sent.
            Unavailable: the job's files cannot be written, so the job was not sent.
        """
        argv = await self._make_sbatch_command(request)
        await self._create_files(request)
        try:
            completed = await self._commands.submit(
                *argv,
                script=request.script.encode(),
                account=request.account,
                timeout_s=self._site.timeout_s,
            )
        except CommandTimeout as error:
            self._site.record_no_answer()
            raise SubmitUncertain(error.message) from error
        except NotAllowed as error:
            raise SchedulerRejected(error.message, "account") from error
        except Unavailable as error:
            raise SchedulerUnavailable(error.message) from error
        return self._parse_submit_result(completed, request)

    def _parse_submit_result(self, completed: Completed, request: SubmitRequest) -> str:
        if completed.returncode == 0:
            number = command_errors.parse_job_id(completed.stdout.decode("utf-8", "replace"))
            if number is not None:
                return number
            raise SubmitUnclear(
                f"sbatch succeeded without a job ID: {completed.output_text[:200]!r}"
            )
        if completed.returncode < 0:
            self._site.record_no_answer()
            raise SubmitUnclear(
                f"sbatch was ended by signal {-completed.returncode}: {completed.output_text[:200]!r}"
            )
        failure = command_errors.parse_submission_failure(completed.output_text)
        if failure is SubmissionFailure.REFUSED:
            raise command_errors.make_rejection(completed.output_text, request)
        self._site.record_no_answer()
        if failure is SubmissionFailure.NOT_NOW:
            raise SchedulerUnavailable(
                f"Slurm accepts no jobs at the moment: {command_errors.format_error_output(completed.output_text)}"
            )
        raise SubmitUncertain(f"sbatch was interrupted: {completed.output_text}")

    async def _make_sbatch_command(self, request: SubmitRequest) -> Sequence[str]:
        config = await self._get_config()
        rejected = (await self._site.limits()).find_rejection(request)
        if rejected is not None:
            raise rejected
        allowed = self._settings.slurm.extra
        return [
            "sbatch",
            *make_sbatch_arguments(request, accounting=config.accounting, allowed=allowed),
        ]

    async def _create_files(self, request: SubmitRequest) -> None:
        place = JobLocation(
            job_id=request.job_id,
            attempt=request.attempt,
            folder=str(PurePath(request.job_dir).parent),
            account=request.account,
        )
        try:
            await self._files.create_attempt_folder(
                place, {**request.files, SCRIPT: request.script.encode()}
            )
        except InvalidInput as error:
            raise SchedulerRejected(error.message, "files") from error
        except NotAllowed as error:
            raise SchedulerRejected(error.message, "account") from error
        except Unavailable as error:
            raise Unavailable(f"{error.message} Nothing was submitted.") from error

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Run ``sbatch --test-only`` as the job's account, with the script that would be submitted;
        return Slurm's forecast, or None if it gives none.

        With ``--test-only``, Slurm considers the nodes of ``--nodelist`` alone and refuses a job that
        needs more, although it accepts the job itself. The nodes of such a job are not passed, and
        its start is unknown.

        Raises:
            SchedulerRejected: Slurm would reject the job.
            SchedulerUnavailable: Slurm does not answer.
        """
        needs_more = 0 < len(request.nodes) < request.resources.nodes
        tested = request.model_copy(update={"nodes": ()}) if needs_more else request
        _, *argv = await self._make_sbatch_command(tested)
        script = request.script or "#!/bin/sh\n"
        try:
            completed = await self._commands.submit(
                "sbatch",
                "--test-only",
                *argv,
                script=script.encode(),
                account=request.account,
                timeout_s=self._site.timeout_s,
                test=True,
            )
        except NotAllowed as error:
            raise SchedulerRejected(error.message, "account") from error
        except (CommandTimeout, Unavailable) as error:
            raise SchedulerUnavailable(error.message) from error
        if completed.returncode == 0:
            return None if needs_more else command_errors.parse_forecast(completed.output_text)
        if (
            command_errors.parse_submission_failure(completed.output_text)
            is SubmissionFailure.REFUSED
        ):
            raise command_errors.make_rejection(completed.output_text, request)
        raise SchedulerUnavailable(f"sbatch failed: {completed.output_text}")

    # --- commands --------------------------------------------------------------------------------

    async def cancel(self, run: Run) -> None:
        """Cancel the jobs that Slurm holds under this attempt's job name, as the job's account.

        Raises:
            SchedulerRejected: the account may not cancel the job.
            SchedulerUnavailable: Slurm does not answer.
        """
        task = (run.scheduler_id or "").partition("_")[2]
        own_jobs = await self._find_own_records(run, single_tasks=bool(task))
        rows = [row for row in own_jobs if task in ("", str(row.array_task_id))]
        for row in rows if task else ():
            # Slurm keeps no record of a task that is cancelled before it has its own record, and
            # with --jobname 22.05 would cancel all waiting tasks. A hold creates the record.
            if row.state is JobState.QUEUED:
                hold = await self._run_command(
                    "scontrol", "hold", row.scheduler_id, account=run.account
                )
                self._check_completed(hold, f"Job {row.scheduler_id} cannot be ended")
        numbers = [row.scheduler_id if task else row.scheduler_id.partition("_")[0] for row in rows]
        name = job_comment.make_job_name(run.job_id, run.attempt)
        for number in dict.fromkeys(numbers):
            # --jobname protects another job that may have the ID by now. For an array it makes Slurm
            # forget which tasks had not started, so the name was checked above instead.
            alone = any(row.scheduler_id == number and not row.array_task_ids for row in rows)
            guard = (f"--jobname={name}",) if alone else ()
            completed = await self._run_command("scancel", *guard, number, account=run.account)
            self._check_completed(completed, f"Job {number} cannot be ended")

    async def _find_own_records(
        self, run: Run, *, single_tasks: bool = True
    ) -> Sequence[SchedulerJob]:
        """Return the records of the attempt's jobs in Slurm that have not ended and belong to its
        account, whatever their IDs.

        There are two jobs if a submission with an unknown result was repeated although it had
        succeeded; both must be found, because the other one would still run.
        """
        return [
            row
            for row in await self._site.list_live_records([run], single_tasks=single_tasks)
            if not row.state.is_terminal and run.account in (None, row.account)
        ]

    async def _find_live_records(self, run: Run) -> Sequence[SchedulerJob]:
        """Return the records of the attempt's jobs that have not ended; if its scheduler ID is
        known, only those with this ID.
        """
        return [
            row
            for row in await self._find_own_records(run)
            if run.scheduler_id is None
            or run.scheduler_id in (row.scheduler_id, row.scheduler_id.partition("_")[0])
        ]

    async def hold(self, run: Run) -> None:
        """Hold the job's pending tasks, as its account, so that the account can release them.

        Raises:
            SchedulerRejected: no task is pending, or Slurm does not permit it.
            SchedulerUnavailable: Slurm does not answer.
        """
        for number in await self._find_pending_task_ids(run):
            completed = await self._run_command("scontrol", "hold", number, account=run.account)
            self._check_changed(completed, f"Job {number} cannot be held")

    async def release(self, run: Run) -> None:
        """Release the job's pending tasks, as its account, which cannot release a hold by an
        administrator.

        Raises:
            SchedulerRejected: no task is pending, or Slurm does not permit it.
            SchedulerUnavailable: Slurm does not answer.
        """
        for number in await self._find_pending_task_ids(run):
            completed = await self._run_command("scontrol", "release", number, account=run.account)
            self._check_changed(completed, f"Job {number} cannot be released")

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Set how many tasks of the array may run at once (ArrayTaskThrottle), as its account;
        None: no maximum.

        Raises:
            SchedulerRejected: no task is pending, or Slurm does not permit it.
            SchedulerUnavailable: Slurm does not answer.
        """
        array_id = (await self._find_pending_task_ids(run))[0].partition("_")[0]
        words = (f"JobId={array_id}", f"ArrayTaskThrottle={max_parallel or 0}")
        completed = await self._run_command("scontrol", "update", *words, account=run.account)
        self._check_changed(completed, f"The task limit of array {array_id} cannot be changed")

    async def _find_pending_task_ids(self, run: Run) -> Sequence[str]:
        """Return the Slurm IDs of the run's pending tasks. Tasks of an array that share one record
        are represented by the array's ID.

        Raises:
            SchedulerRejected: no task of the run is pending.
            SchedulerUnavailable: Slurm does not answer.
        """
        task = (run.scheduler_id or "").partition("_")[2]
        rows = [
            row
            for row in await self._find_own_records(run, single_tasks=bool(task))
            if row.state is JobState.QUEUED and task in ("", str(row.array_task_id))
        ]
        if not rows:
            raise SchedulerRejected(f"Job {run.scheduler_id} does not wait any more.")
        ids = (
            row.scheduler_id.partition("_")[0] if row.array_task_ids else row.scheduler_id
            for row in rows
        )
        return list(dict.fromkeys(ids))

    def _check_changed(self, completed: Completed, what: str) -> None:
        """Raise an error unless the command succeeded for all tasks that are still pending.

        For an array of which some tasks have started or ended, Slurm fails and reports ``12_3: Job
        has already finished`` for these and ``12_4-9: No error`` for the others, which it has
        changed.
        """
        lines = completed.output_text.splitlines()
        if completed.returncode == 0 or (lines and all(map(_TASK_STARTED.search, lines))):
            return
        if _STARTED.search(completed.output_text):
            raise SchedulerRejected(f"{what}: it does not wait any more.")
        self._check_completed(completed, what)

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set the time limit of the running tasks, as an operator of Slurm, because a job's account
        may only reduce it.

        Slurm counts whole minutes and permits an operator to exceed the partition's limit, which is
        therefore checked here.

        Raises:
            SchedulerRejected: no task is running, or the limit is in the past or exceeds the
                partition's limit.
            SchedulerUnavailable: Slurm does not answer.
        """
        rows = [row for row in await self._find_live_records(run) if row.state in _ALLOCATED]
        if not rows:
            raise SchedulerRejected(
                f"Job {run.scheduler_id} does not run: only a running job's time can be extended."
            )
        limits = await self._site.limits()
        for row in rows:
            passed = (datetime.now(UTC) - (row.started_at or datetime.now(UTC))).total_seconds()
            if time_limit_s <= passed:
                raise SchedulerRejected(
                    f"time_limit_s: {time_limit_s} s are in the past; job {row.scheduler_id} has "
                    f"run for {int(passed)} s.",
                    "max_duration",
                )
            longest = limits.get_max_time_limit_s(row.partition or "")
            if longest is not None and time_limit_s > longest:
                raise SchedulerRejected(
                    f"max_duration: {format_duration(time_limit_s)} is too much; partition "
                    f"{row.partition} allows {format_duration(longest)}.",
                    "max_duration",
                )
        for row in rows:
            limit = format_slurm_time(time_limit_s)
            words = (f"JobId={row.scheduler_id}", f"TimeLimit={limit}")
            completed = await self._run_command("scontrol", "update", *words, account=None)
            if completed.returncode != 0 and _GONE.search(completed.output_text):
                raise SchedulerRejected(f"Job {row.scheduler_id} does not run any more.")
            self._check_completed(
                completed, f"The time of job {row.scheduler_id} cannot be changed"
            )

    async def drain(self, node: str, reason: str) -> None:
        """Set the node to drain, as an administrator of Slurm.

        Raises:
            SchedulerRejected: the node does not exist, or Slurm does not permit it.
            SchedulerUnavailable: Slurm does not answer.
        """
        drain_reason = " ".join(reason.split())[:200] or "drained"
        await self._update_node(node, "State=DRAIN", f"Reason={drain_reason}")

    async def resume(self, node: str) -> None:
        """Return the node to service, as an administrator of Slurm.

        Raises:
            SchedulerRejected: the node does not exist, it is not drained or down, or Slurm does not
                permit it.
            SchedulerUnavailable: Slurm does not answer.
        """
        await self._update_node(node, "State=RESUME")

    async def _update_node(self, node: str, *words: str) -> None:
        # Slurm would also accept "ALL" and n[1-9].
        if not await self._site.has_node(node):
            raise SchedulerRejected(f"Slurm has no node {node}.")
        completed = await self._run_command(
            "scontrol", "update", f"NodeName={node}", *words, account=None
        )
        self._check_completed(completed, f"Node {node} cannot be changed")

    async def _run_command(self, *argv: str, account: str | None) -> Completed:
        return await self._commands.run(*argv, account=account, timeout_s=self._site.timeout_s)

    def _check_completed(self, completed: Completed, what: str) -> None:
        """Raise an error unless the command succeeded or the job no longer exists."""
        if completed.returncode == 0 or _GONE.search(completed.output_text):
            return
        if _DENIED.search(completed.output_text):
            raise SchedulerRejected(
                f"{what}: Slurm does not permit it to this account. Slurm says: {completed.output_text}"
            )
        if (
            completed.returncode > 0
            and command_errors.parse_submission_failure(completed.output_text)
            is SubmissionFailure.REFUSED
        ):
            raise SchedulerRejected(f"{what}. Slurm says: {completed.output_text}")
        self._site.record_no_answer()
        raise SchedulerUnavailable(f"{what}: {completed.output_text or completed.returncode}")
