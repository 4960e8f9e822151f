"""Life cycle of the tasks in the ``local`` scheduler: tasks are started when resources are free,
supervised, requeued and ended.

Decisions are made in the event loop's thread from the state in memory; other threads only access
the disk and start processes. The end of a runner is signalled by its pidfd.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aitne.adapters.schedulers._local import planner, runner_launcher
from aitne.adapters.schedulers._local.job_index import (
    JobIndex,
    LocalJob,
    LocalTask,
    TaskPhase,
    find_open_dependencies,
)
from aitne.adapters.schedulers._local.job_records import Records, TaskOutcome, TaskState
from aitne.adapters.schedulers._local.node_resources import NodeCapacity
from aitne.adapters.schedulers._local.outcome import read_end_record, to_task_outcome
from aitne.adapters.schedulers._local.project_limits import TaskLimits
from aitne.adapters.schedulers._local.run_starter import RunStarter
from aitne.adapters.schedulers._local.state_recovery import recover_states
from aitne.core.jobs.states import TerminationReason as Reason
from aitne.core.models.limits import HeldLimits, LimitUsage

GATHER_S = 0.02
"""Seconds during which newly submitted tasks are collected before the next scheduling round,
because each round considers all tasks.
"""
RETRY_S = 5.0
"""Seconds before another attempt after a failed start, or if the machine seems to be shutting down.
"""

_LONGEST_TIMER_S = 86_400.0

_log = logging.getLogger(__name__)


class SchedulingEngine:
    """Core of the ``local`` scheduler: starts pending tasks when resources are free, ends tasks,
    and restores them after a restart. It does not use the types of the scheduler port.
    """

    def __init__(
        self,
        records: Records,
        nodes: Sequence[NodeCapacity],
        limits: TaskLimits,
        starter: RunStarter,
        *,
        grace_s: float,
        clock: Callable[[], datetime],
    ) -> None:
        self.records = records
        self.nodes = nodes
        self.limits = limits
        self.book = JobIndex()
        self.changed = asyncio.Event()
        self._starter = starter
        self._grace_s = grace_s
        self._clock = clock
        self._reasons: dict[int, str] = {}
        self._forecast: dict[int, datetime] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False
        self.next_round: asyncio.TimerHandle | None = None
        self._scheduled_at = float("-inf")
        self._next_timed: datetime | None = None  # round that only the time makes necessary

    # --- queries ---------------------------------------------------------------------------------

    def list_resource_holders(self) -> list[LocalTask]:
        """Return the tasks that hold resources, such as running ones."""
        return [task for task in self.book.tasks() if task.holds_slots]

    def limit_usage(self) -> LimitUsage:
        """Return the limits of projects and members, with their current usage."""
        return self.limits.usage(self.book.tasks(), self._clock())

    async def set_limits(self, limits: HeldLimits) -> None:
        """Apply these limits from now on; running tasks continue. Raises ``OSError`` if they cannot
        be stored.
        """
        if limits != self.limits.held:
            await asyncio.to_thread(self.limits.save, limits)
            self.limits.held = limits
            self.schedule()

    def pending_reason(self, task: LocalTask) -> str | None:
        """Return why a task is pending, as a sentence; None if no reason is known."""
        reason = task.trouble or self._reasons.get(task.number)
        return None if reason is None else f"{reason}."

    def expected_start(self, task: LocalTask) -> datetime | None:
        """Return the latest time at which the pending task will start; None if that is not known."""
        if self._forecast is None:
            now = self._clock()
            running = [
                holder.to_running_task(now, self._grace_s)
                for holder in self.list_resource_holders()
            ]
            waiting = [waiter.to_waiting_task(now) for waiter in self._list_startable_tasks(now)]
            caps = self.limits.caps(self.book.tasks(), now)
            starts = planner.forecast_start_times(
                self.nodes, running, waiting, now.timestamp(), caps
            )
            self._forecast = {
                number: datetime.fromtimestamp(start, UTC) for number, start in starts.items()
            }
        return self._forecast.get(task.number)

    # --- scheduling ------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Start the pending tasks that can start now; set the pending reasons of the others."""
        if self._closed:
            return
        self.next_round, timer = None, self.next_round
        if timer is not None:
            timer.cancel()
        now = self._clock()
        self._reasons = {}
        startable = self._list_startable_tasks(now)
        running = [
            task.to_running_task(now, self._grace_s) for task in self.list_resource_holders()
        ]
        plan = planner.make_schedule_plan(
            self.nodes,
            running,
            [task.to_waiting_task(now) for task in startable],
            now.timestamp(),
            self.limits.caps(self.book.tasks(), now),
        )
        self._reasons |= plan.reasons
        for task in startable:
            grants = plan.starts.get(task.number)
            if grants is not None:
                task.phase, task.grants, task.started_at = TaskPhase.LAUNCHING, grants, None
                task.startable_since = None
                self._start_background(self._launch(task))
        waiting = {task.number: task for task in startable}
        self._reasons |= self.limits.reasons(plan.limited, waiting, self.book.tasks(), now)
        self._scheduled_at = asyncio.get_running_loop().time()
        self.notify()

    def schedule_soon(self) -> None:
        """Schedule now, or within ``GATHER_S`` seconds if the last round was less than that ago."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._scheduled_at + GATHER_S:
            self.schedule()
        elif self.next_round is None:
            self.next_round = loop.call_later(GATHER_S, self.schedule)

    def notify(self) -> None:
        """Wake the callers that wait for a change of any job (``LocalScheduler.wait_for_change``)."""
        self._forecast = None
        self.changed.set()

    def _list_startable_tasks(self, now: datetime) -> list[LocalTask]:
        """Return the tasks that are pending only for resources, in order of submission. Tasks whose
        dependency failed are ended.
        """
        tasks = []
        for number in sorted(self.book.jobs):
            job = self.book.jobs[number]
            waiting = [
                task for task in job.tasks if task.phase is TaskPhase.WAITING and not task.cancelled
            ]
            if not waiting:
                continue
            # Only with aftercorr the tasks of an array wait for different ones.
            common = (
                None
                if job.record.request.aftercorr
                else find_open_dependencies(self.book, waiting[0])
            )
            for task in waiting:
                names, failed = common or find_open_dependencies(self.book, task)
                if failed:
                    self._finish(task, TaskOutcome(reason=Reason.DEPENDENCY_FAILED, ended_at=now))
                elif names:
                    verb = "end" if job.record.request.afterany else "complete"
                    text = f"Waits for job{'s' * (len(names) > 1)} {', '.join(names)} to {verb}"
                    self._reasons[task.number] = text
                elif task.held:
                    self._reasons[task.number] = "Is held; it starts after a release"
                elif self._is_early(task, now):
                    self._reasons[task.number] = "Waits for the time before which it may not start"
                elif task.not_before is None or task.not_before <= now:
                    task.startable_since = task.startable_since or now
                    if (until := task.leaf_wait_ends_at()) is not None and until > now:
                        self._schedule_at(until, now)
                    tasks.append(task)
        return tasks

    def _is_early(self, task: LocalTask, now: datetime) -> bool:
        """Return True if the task's earliest start time (``begin_at``) is in the future; a
        scheduling round is then planned for that time.
        """
        begin_at = task.job.record.request.begin_at
        if begin_at is None or begin_at <= now:
            return False
        self._schedule_at(begin_at, now)
        return True

    def _schedule_at(self, time: datetime, now: datetime) -> None:
        """Plan a scheduling round for ``time``, unless an earlier one is planned."""
        if self._next_timed is None or time < self._next_timed:
            self._next_timed = time
            delay_s = min((time - now).total_seconds() + 0.01, _LONGEST_TIMER_S)
            asyncio.get_running_loop().call_later(delay_s, self._run_timed_schedule)

    def _run_timed_schedule(self) -> None:
        self._next_timed = None
        self.schedule()

    # --- starting --------------------------------------------------------------------------------

    async def _launch(self, task: LocalTask) -> None:
        run = task.runs
        task.runs += 1
        limit = task.time_limit_s
        try:
            identity = await asyncio.to_thread(
                self._starter.start, task, run, time_limit_s=limit, started=self._clock()
            )
        except OSError as error:
            await self._start_failed(task, error)
        else:
            self._watch_runner(task, identity)
            if task.cancelled:  # meanwhile
                await self._send_control(task, signal.SIGTERM)
            elif task.time_limit_s != limit:
                await self._send_control(task, signal.SIGUSR1)
        self.notify()

    async def _start_failed(self, task: LocalTask, error: OSError) -> None:
        """Handle a failed start, after which no process of the task runs. The task becomes pending
        again, or ends if its folder no longer exists.
        """
        _log.warning("Job %s could not be started: %s", task.scheduler_id, error)
        task.runs -= 1
        task.phase, task.grants = TaskPhase.WAITING, ()
        await asyncio.to_thread(shutil.rmtree, self._run_dir(task, task.runs), ignore_errors=True)
        now = self._clock()
        if task.cancelled:
            self._finish(task, TaskOutcome(reason=Reason.CANCELLED, ended_at=now))
        elif not self._starter.uses_user_accounts and not await asyncio.to_thread(
            os.path.isdir, task.job.record.request.job_dir
        ):
            self._finish(task, TaskOutcome(reason=Reason.START_FAILED, ended_at=now))
        else:
            task.trouble = f"It could not be started ({error}); it will be tried again"
            self._delay_start(task, RETRY_S)
        self.schedule()

    def _delay_start(self, task: LocalTask, seconds: float) -> None:
        task.not_before = self._clock() + timedelta(seconds=seconds)
        asyncio.get_running_loop().call_later(seconds + 0.01, self.schedule)

    def _run_dir(self, task: LocalTask, run: int) -> Path:
        return self.records.run_dir(task.job.record.number, task.index, run)

    # --- watching --------------------------------------------------------------------------------

    def _watch_runner(self, task: LocalTask, identity: runner_launcher.ProcessIdentity) -> None:
        """Watch a runner that has claimed the task's last run, until the runner ends."""
        task.phase, task.identity, task.trouble, task.not_before = (
            TaskPhase.RUNNING,
            identity,
            None,
            None,
        )
        task.started_at = datetime.fromtimestamp(identity.started_at, UTC)
        task.pidfd = identity.open_pidfd()
        if task.pidfd is None:
            self._handle_runner_end(task)
            return
        asyncio.get_running_loop().add_reader(task.pidfd, self._handle_runner_end, task)

    def _handle_runner_end(self, task: LocalTask) -> None:
        self._unwatch_runner(task)
        task.phase = TaskPhase.SETTLING
        self._start_background(self._determine_outcome(task))

    def _unwatch_runner(self, task: LocalTask) -> None:
        if task.pidfd is not None:
            asyncio.get_running_loop().remove_reader(task.pidfd)
            os.close(task.pidfd)
            task.pidfd = None

    def _signal_runner(self, task: LocalTask, number: int) -> None:
        if task.pidfd is not None:
            try:
                signal.pidfd_send_signal(task.pidfd, number)
            except ProcessLookupError:
                return  # the notification of its end is pending

    async def _determine_outcome(self, task: LocalTask) -> None:
        """Determine how the run ended, after its runner has ended."""
        run_dir = self._run_dir(task, task.runs - 1)
        try:
            facts = await asyncio.to_thread(read_end_record, run_dir, task.identity)
        except OSError as error:
            _log.error("The outcome of job %s cannot be read yet: %s", task.scheduler_id, error)
            asyncio.get_running_loop().call_later(RETRY_S, self._retry_outcome, task)
            return
        ending = to_task_outcome(
            facts, cancelled=task.cancelled, started_at=task.started_at, now=self._clock()
        )
        request = task.job.record.request
        if ending.reason is Reason.NODE_FAILED and task.restart_count < (request.max_requeues or 0):
            _log.warning("Job %s lost its node and is requeued", task.scheduler_id)
            task.restart_count += 1
            task.phase, task.grants, task.identity, task.started_at = (
                TaskPhase.WAITING,
                (),
                None,
                None,
            )
            task.time_limit_s = request.time_limit_s
            if facts is not None:  # the machine shuts down: do not start during that
                task.trouble = "Its node is shutting down; it will start again"
                self._delay_start(task, RETRY_S)
            await self._persist(task)
        else:
            self._finish(task, ending)
        self.schedule()

    def _retry_outcome(self, task: LocalTask) -> None:
        if not self._closed:
            self._start_background(self._determine_outcome(task))

    def _finish(self, task: LocalTask, outcome: TaskOutcome) -> None:
        task.phase, task.ending, task.trouble = TaskPhase.ENDED, outcome, None
        self._start_background(self._persist(task))

    async def _persist(self, task: LocalTask) -> None:
        """Write the task's state in memory to disk. A failure is only logged, since the run's own
        files still show how the task ended.
        """
        try:
            await asyncio.to_thread(self._write_state, task)
        except OSError as error:
            _log.error("The state of job %s could not be written: %s", task.scheduler_id, error)

    def _write_state(self, task: LocalTask) -> None:
        self.records.write_state(task.job.record.number, task.index, task.to_state())

    # --- commands --------------------------------------------------------------------------------

    async def cancel(self, task: LocalTask) -> None:
        """Cancel a task in any phase; do nothing if it has ended. Raises ``OSError`` if the end of
        a pending task cannot be stored.
        """
        if task.has_ended or task.cancelled:
            return
        task.cancelled = True
        if task.phase is TaskPhase.WAITING:
            ending = TaskOutcome(reason=Reason.CANCELLED, ended_at=self._clock())
            state = TaskState(
                restart_count=task.restart_count, closed_runs=task.runs, ending=ending
            )
            try:
                await asyncio.to_thread(
                    self.records.write_state, task.job.record.number, task.index, state
                )
            except OSError:
                task.cancelled = False
                raise
            task.phase, task.ending, task.trouble = TaskPhase.ENDED, ending, None
        elif task.phase is TaskPhase.RUNNING:
            await self._send_control(task, signal.SIGTERM)

    async def hold(self, tasks: Sequence[LocalTask], *, held: bool) -> None:
        """Hold or release pending tasks. Raises ``OSError`` if that cannot be stored; nothing
        changes then.
        """
        changed = [task for task in tasks if task.held is not held]
        for task in changed:
            task.held = held
        try:
            for task in changed:
                await asyncio.to_thread(self._write_state, task)
        except OSError:
            for task in changed:
                task.held = not held
            raise
        finally:
            self.schedule()

    async def throttle(self, job: LocalJob, throttle: int | None) -> None:
        """Set how many tasks of the array may run at once; None: no maximum. Raises ``OSError`` if
        it cannot be stored.
        """
        await asyncio.to_thread(self.records.write_throttle, job.record.number, throttle)
        job.record = job.record.model_copy(update={"throttle": throttle})
        self.schedule()

    async def extend(self, task: LocalTask, time_limit_s: int) -> None:
        """Set the time limit of a running task. Raises ``OSError`` if it cannot be stored."""
        before, task.time_limit_s = task.time_limit_s, time_limit_s
        try:
            if task.phase is TaskPhase.RUNNING:  # a task that is being started gets it afterwards
                await self._send_control(task, signal.SIGUSR1)
        except OSError:
            task.time_limit_s = before
            raise
        self.schedule()

    async def _send_control(self, task: LocalTask, signal_number: int) -> None:
        try:
            await asyncio.to_thread(
                runner_launcher.write_control,
                self._run_dir(task, task.runs - 1),
                time_limit_s=task.time_limit_s,
                cancel=task.cancelled,
            )
        except OSError as error:
            if signal_number != signal.SIGTERM:
                raise
            # It must end anyway; the cancellation is recorded in memory.
            _log.warning("The command for job %s was not stored: %s", task.scheduler_id, error)
        self._signal_runner(task, signal_number)

    # --- start and stop --------------------------------------------------------------------------

    async def restore(self, jobs: Sequence[LocalJob]) -> None:
        """Resume control of the stored jobs after a restart of the scheduler. Each task continues
        from its stored state; runs whose runners have ended meanwhile are evaluated.

        Raises:
            OSError: the files of a job cannot be read.
        """
        for job in jobs:
            self.book.add(job)
        await asyncio.to_thread(recover_states, self.records, self.book)
        for task in list(self.book.tasks()):
            if task.phase is TaskPhase.SETTLING:
                self._start_background(self._determine_outcome(task))
            elif task.phase is TaskPhase.RUNNING and task.identity is not None:
                self._watch_runner(task, task.identity)
                if task.cancelled and task.pidfd is not None:
                    self._start_background(self._send_control(task, signal.SIGTERM))
        self.schedule()

    def forget_ended_before(self, when: datetime) -> list[int]:
        """Remove jobs that ended before ``when`` from memory; return the numbers of the jobs whose
        folders can be deleted.

        A job on which a pending job depends is kept, and so is the folder of the highest number, so
        that the number is not reused.
        """
        numbers = []
        highest = max(self.book.jobs, default=0)
        for number, job in list(self.book.jobs.items()):
            ended_at = job.last_ended_at()
            if ended_at is None or ended_at >= when or self.book.dependents(number):
                continue
            del self.book.jobs[number]
            if number != highest:
                numbers.append(number)
        return numbers

    def _start_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._handle_background_end)

    def _handle_background_end(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("Unexpected error in the local scheduler", exc_info=error)

    async def close(self) -> None:
        """Wait for pending operations and stop watching the runners, which continue."""
        self._closed = True
        while self._background:
            await asyncio.wait(set(self._background))
        for task in self.book.tasks():
            self._unwatch_runner(task)
