"""Built-in scheduler without Slurm: it runs the same scripts as supervised processes on this
machine.

Every job has its own detached runner, so jobs continue when the platform ends; all state is stored
in files below ``<data dir>/local``, so the next start of the platform restores all jobs.

All jobs run as the platform's own account, or, if this scheduler runs in the broker, each under its
user's account.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import PurePath

from aitne.adapters.area_folders import check_only_root_writes
from aitne.adapters.schedulers._local.enforceable_limits import find_agent_cgroups
from aitne.adapters.schedulers._local.job_index import (
    LocalJob,
    LocalTask,
    TaskPhase,
    dependencies_of,
)
from aitne.adapters.schedulers._local.job_records import (
    LocalJobRecord,
    Records,
    job_files,
    write_job_files,
)
from aitne.adapters.schedulers._local.local_attacher import LocalAttacher
from aitne.adapters.schedulers._local.machine_resources import list_node_capacities
from aitne.adapters.schedulers._local.node_record_conversion import explain_never_fits, node_record
from aitne.adapters.schedulers._local.node_resources import FreeResources, NodeCapacity
from aitne.adapters.schedulers._local.project_limits import TaskLimits
from aitne.adapters.schedulers._local.run_starter import RunStarter
from aitne.adapters.schedulers._local.scheduling_engine import SchedulingEngine
from aitne.adapters.unix_account_mapping import permitted_user
from aitne.core.errors import NotSupported, SchedulerRejected, SchedulerUnavailable, SetupError
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster, Holder
from aitne.core.models.limits import HeldLimits, LimitUsage
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
from aitne.core.units import format_duration, parse_array

_KEEP_ENDED = timedelta(hours=1)
_LOCK_WAIT_S = 5.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class LocalScheduler:
    """Implementation of ``core.ports.scheduler.Scheduler`` that runs jobs as processes on this
    machine.
    """

    name = "local"
    capabilities = SchedulerCapabilities(
        title="the local scheduler",
        remote=False,
        runs_as_users=False,
        shared=False,
        drains=False,
        partitions=False,
        slurm_options=False,
        limits=True,
    )
    attacher = LocalAttacher
    settle_s = 0.0

    def __init__(
        self,
        settings: Settings,
        tools: Tools | None = None,
        *,
        clock: Callable[[], datetime] = _utc_now,
        grace_s: float = 10.0,
    ) -> None:
        # The broker's tools act as other accounts; without them every job runs as this process's own.
        self._files = None if tools is None or tools.command.alone else tools.files
        self._settings = settings
        self._clock = clock
        self._grace_s = grace_s
        self._root = (settings.data_dir / "local").resolve()  # jobs carry this path
        self._records = Records(self._root)
        self._nodes: tuple[NodeCapacity, ...] = ()
        self._agent_cgroups: tuple[str, ...] | None = None
        self._engine_or_none: SchedulingEngine | None = None
        self._next_number = 1
        self._started_at = clock()
        self._lock: int | None = None

    # --- start and stop --------------------------------------------------------------------------

    async def start(self) -> Sequence[str]:
        """Read the stored jobs and resume control of those that are still running; return notes for
        the administrator.

        Raises:
            SetupError: the folder cannot be used, or another platform process uses it.
        """
        try:
            if self._files is not None:
                await asyncio.to_thread(check_only_root_writes, self._root)
            await asyncio.to_thread(self._records.prepare)
            self._lock = await self._acquire_lock()
            self._nodes = await asyncio.to_thread(list_node_capacities, self._settings.local)
            if self._files is None:
                self._agent_cgroups = await asyncio.to_thread(find_agent_cgroups)
            records, highest = await asyncio.to_thread(self._records.load)
            self._next_number = highest + 1
            limits = TaskLimits(self._root / "limits.json", self._nodes, grace_s=self._grace_s)
            await asyncio.to_thread(limits.load)
            starter = RunStarter(
                self._records,
                cluster=self._settings.cluster,
                has_gpus=any(node.gpus for node in self._nodes),
                grace_s=self._grace_s,
                permitted=None
                if self._files is None
                else partial(permitted_user, settings=self._settings.accounts),
            )
            self._engine_or_none = SchedulingEngine(
                self._records,
                self._nodes,
                limits,
                starter,
                grace_s=self._grace_s,
                clock=self._clock,
            )
            self._started_at = self._clock()
            await self._engine.restore([LocalJob(record) for record in records])
            return ()
        except OSError as error:
            await self.close()
            raise SetupError(
                f"The local scheduler cannot use {self._root}: {error.strerror or error}. Make the "
                "data directory writable, or choose another with --data-dir."
            ) from error
        except SetupError:
            await self.close()
            raise

    async def _acquire_lock(self) -> int:
        """Lock the folder exclusively and return the lock's descriptor. Two schedulers on one
        folder would start every job twice. Raises ``SetupError`` if another process holds the lock.
        """
        lock = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = asyncio.get_running_loop().time() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    os.close(lock)
                    raise SetupError(
                        f"Another controller schedules the jobs in {self._root}. Stop it first: "
                        "one platform has one controller."
                    ) from None
                await asyncio.sleep(0.1)
            else:
                return lock

    async def close(self) -> None:
        """Release the lock and the runners; running jobs continue."""
        if self._engine_or_none is not None:
            await self._engine.close()
            self._engine_or_none = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _engine(self) -> SchedulingEngine:
        if self._engine_or_none is None:
            raise SchedulerUnavailable("The local scheduler has not been started, or was closed.")
        return self._engine_or_none

    # --- the port --------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> str:
        """Accept the job and start it immediately if its resources are free.

        Raises:
            SchedulerRejected: the job can never run here; the message names field and limit.
            SchedulerUnavailable: the record could not be written; the job was not queued.
            Unavailable: the files of the job could not be written; it was not queued.
        """
        engine = self._engine
        array = None if request.array is None else _parse_array_option(request.array)
        self._check_request(request)
        record = LocalJobRecord(
            number=self._next_number,
            indices=None if array is None else array[0],
            throttle=None if array is None else array[1],
            submitted_at=self._clock(),
            request=request,
        )
        self._next_number = record.last_number + 1
        # Once the record may be on disk, it must be in memory too, even if the caller was cancelled.
        await asyncio.shield(asyncio.ensure_future(self._accept_job(engine, record)))
        return str(record.number)

    async def _write_files(self, request: SubmitRequest) -> None:
        if self._files is not None:
            place = JobLocation(
                job_id=request.job_id,
                attempt=request.attempt,
                folder=str(PurePath(request.job_dir).parent),
                account=request.account,
            )
            await self._files.create_attempt_folder(place, job_files(request))
            return
        try:
            await asyncio.to_thread(write_job_files, request)
        except OSError as error:
            raise self._make_not_queued_error(error) from error

    def _make_not_queued_error(self, error: OSError) -> SchedulerUnavailable:
        return SchedulerUnavailable(
            f"The job's files could not be written below {self._settings.data_dir}: "
            f"{error.strerror or error}. The job was not queued."
        )

    async def _accept_job(self, engine: SchedulingEngine, record: LocalJobRecord) -> None:
        await self._write_files(record.request)
        try:
            await asyncio.to_thread(self._records.create, record)
        except OSError as error:
            raise self._make_not_queued_error(error) from error
        reduced_record = record.model_copy(
            update={"request": record.request.model_copy(update={"script": "", "files": {}})}
        )
        engine.book.add(LocalJob(reduced_record))
        engine.schedule_soon()

    def _check_request(self, request: SubmitRequest) -> None:
        now, engine = self._clock(), self._engine
        job = LocalJob(LocalJobRecord(number=0, submitted_at=now, request=request))
        if not FreeResources(self._nodes).fits(job.demand):
            raise SchedulerRejected(explain_never_fits(self._nodes, request))
        problem = engine.limits.problem(request, engine.book.tasks(), job, now)
        if problem is not None:
            raise SchedulerRejected(problem)
        for name in request.files:
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise SchedulerRejected(f"files: {name!r} is not a plain file name.")
        for name in dependencies_of(request):
            if not engine.book.select(name):
                raise SchedulerRejected(
                    f"after: job {name} is not known to the local scheduler. It removes a job "
                    f"{format_duration(int(_KEEP_ENDED.total_seconds()))} after its end."
                )

    async def set_limits(self, limits: HeldLimits) -> LimitUsage:
        """Apply the limits of projects and members from now on; return them with their current
        usage.

        Raises:
            SchedulerUnavailable: the limits could not be stored; the previous ones remain in
                effect.
        """
        engine = self._engine
        try:
            await engine.set_limits(limits)
        except OSError as error:
            raise SchedulerUnavailable(
                f"The limits could not be stored below {self._root}: {error.strerror or error}."
            ) from error
        return engine.limit_usage()

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Check that the job could ever run, without estimating its start time. Raises
        ``SchedulerRejected`` if it could not.
        """
        self._check_request(request)
        return None

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of these attempts and their tasks."""
        engine = self._engine
        attempts = {(run.job_id, run.attempt): run.account for run in runs}
        return [
            self._to_record(engine, task)
            for job in engine.book.jobs.values()
            if (key := (job.record.request.job_id, job.record.request.attempt)) in attempts
            and attempts[key] in (None, job.record.request.account)
            for task in job.tasks
        ]

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the records of all jobs, from memory."""
        engine = self._engine
        if engine.next_round is not None:
            engine.schedule()  # so that new jobs have their pending reasons
        before = self._clock() - _KEEP_ENDED
        # Jobs that ended while the platform was down are reported for as long as those that ended since.
        if before >= self._started_at and (numbers := engine.forget_ended_before(before)):
            await asyncio.to_thread(self._delete_records, numbers)
        return [self._to_record(engine, task) for task in engine.book.tasks()]

    def _delete_records(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            try:
                self._records.delete(number)
            except OSError:
                continue  # the next start reads and deletes it again

    def _to_record(self, engine: SchedulingEngine, task: LocalTask) -> SchedulerJob:
        last = task.last_row
        if last is not None and last.state.is_terminal:
            return last
        if task.phase is TaskPhase.WAITING:
            reason, start = engine.pending_reason(task), engine.expected_start(task)
            if (
                last is not None
                and last.state is JobState.QUEUED
                and (last.pending_reason, last.expected_start_at) == (reason, start)
                and (last.restart_count, last.time_limit_s)
                == (task.restart_count, task.time_limit_s)
            ):
                return last
            row = task.to_record(reason, start)
        else:
            row = task.to_record(None, None)
        if row != last:
            task.last_row = row
        return task.last_row or row

    def _find_tasks(self, run: Run) -> list[LocalTask]:
        """Return the tasks that the run's scheduler ID names; empty if they belong to another
        attempt or account.
        """
        if run.scheduler_id is None:
            return []
        return [
            task
            for task in self._engine.book.select(run.scheduler_id)
            if (task.job.record.request.job_id, task.job.record.request.attempt)
            == (run.job_id, run.attempt)
            and run.account in (None, task.job.record.request.account)
        ]

    async def cancel(self, run: Run) -> None:
        """Cancel a job, an array, or a task of an array.

        Raises:
            SchedulerUnavailable: the cancellation of a pending job could not be stored.
        """
        engine = self._engine
        try:
            # Waiting tasks first: none of them must start in place of one that ends meanwhile.
            tasks = self._find_tasks(run)
            for task in sorted(tasks, key=lambda task: task.phase is not TaskPhase.WAITING):
                await engine.cancel(task)
        except OSError as error:
            raise SchedulerUnavailable(
                f"The cancellation of job {run.scheduler_id} could not be stored: "
                f"{error.strerror or error}."
            ) from error
        finally:
            engine.schedule()

    async def hold(self, run: Run) -> None:
        """Hold the pending tasks of a job or array, or a single task.

        Raises:
            SchedulerRejected: no task is pending.
            SchedulerUnavailable: the hold could not be stored.
        """
        await self._set_held(run, held=True)

    async def release(self, run: Run) -> None:
        """Release the held tasks of a job or array, or one task. Raises the errors of ``hold``."""
        await self._set_held(run, held=False)

    async def _set_held(self, run: Run, *, held: bool) -> None:
        try:
            await self._engine.hold(self._find_waiting_tasks(run), held=held)
        except OSError as error:
            raise SchedulerUnavailable(
                f"The hold of job {run.scheduler_id} could not be stored: "
                f"{error.strerror or error}."
            ) from error

    def _find_waiting_tasks(self, run: Run) -> list[LocalTask]:
        tasks = [task for task in self._find_tasks(run) if task.phase is TaskPhase.WAITING]
        if not tasks:
            raise SchedulerRejected(f"Job {run.scheduler_id} does not wait any more.")
        return tasks

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Set how many tasks of the array may run at once; None: no maximum.

        Raises the errors of ``hold``.
        """
        job = self._find_waiting_tasks(run)[0].job
        try:
            await self._engine.throttle(job, max_parallel)
        except OSError as error:
            raise SchedulerUnavailable(
                f"The task limit of array {run.scheduler_id} could not be stored: "
                f"{error.strerror or error}."
            ) from error

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set the time limit of the running tasks in seconds, counted from their start.

        Raises:
            SchedulerRejected: no task is running, that time has passed already, or a limit does not
                permit it.
            SchedulerUnavailable: the time limit could not be stored.
        """
        engine = self._engine
        scheduler_id = run.scheduler_id
        running = [
            task
            for task in self._find_tasks(run)
            if task.phase in (TaskPhase.LAUNCHING, TaskPhase.RUNNING)
        ]
        if not running:
            raise SchedulerRejected(
                f"Job {scheduler_id} does not run: only a running job's time can be extended."
            )
        problem = engine.limits.extension_problem(
            running, engine.book.tasks(), time_limit_s, self._clock()
        )
        if problem is not None:
            raise SchedulerRejected(f"Job {scheduler_id} cannot be extended: {problem}")
        for task in running:
            started = task.started_at or self._clock()
            passed = (self._clock() - started).total_seconds()
            if time_limit_s <= passed:
                raise SchedulerRejected(
                    f"time_limit_s: {time_limit_s} s are in the past; job {scheduler_id} has run "
                    f"for {int(passed)} s."
                )
            try:
                await engine.extend(task, time_limit_s)
            except OSError as error:
                raise SchedulerUnavailable(
                    f"The extension of job {scheduler_id} could not be stored: "
                    f"{error.strerror or error}."
                ) from error

    async def read_cluster(self) -> Cluster:
        """Return the nodes with their allocated resources; there are no partitions."""
        engine = self._engine
        free = FreeResources(self._nodes)
        for task in engine.list_resource_holders():
            free.allocate(task.job.demand, task.grants)
        now = self._clock()
        return Cluster(
            nodes=tuple(
                node_record(node, free, self._settings.cluster, now) for node in self._nodes
            ),
            memory_held_by=Holder.SAMPLING,
            agent_cgroups=self._agent_cgroups,
            seen_at=now,
        )

    async def drain(self, node: str, reason: str) -> None:
        """Raise ``NotSupported``: the local scheduler cannot drain nodes."""
        raise NotSupported(
            f"Node {node} cannot be drained: the local scheduler has no such state. Stop the "
            "platform, or use Slurm."
        )

    async def resume(self, node: str) -> None:
        """Raise ``NotSupported``: the local scheduler cannot drain nodes."""
        raise NotSupported(f"Node {node} was never drained: the local scheduler has no such state.")

    async def wait_for_change(self) -> None:
        """Wait until any job changes; return immediately if one has changed since the last call."""
        changed = self._engine.changed
        await changed.wait()
        changed.clear()


def _parse_array_option(text: str) -> tuple[tuple[int, ...], int | None]:
    try:
        parsed = parse_array(text)
    except ValueError as error:
        raise SchedulerRejected(f"array: {error}.") from error
    return parsed.indices, parsed.throttle
