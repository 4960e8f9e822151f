"""A remote scheduler that keeps its queue in memory and is none of the built-in ones.

It is installed as another distribution would install it: by the entry point of ``installed``. Its nodes
are pretended; the jobs are real processes of this machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.job_folder_layout import SCRIPT, log_file_name
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Cluster, GpuCount, Node, NodeState, Partition
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.scheduler import (
    Forecast,
    Run,
    SchedulerCapabilities,
    SchedulerJob,
    SubmitRequest,
    get_scheduler_capabilities,
)
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.core.units import parse_array
from aitne_train.topology.hostlist import compress_hostlist

NODES, CPUS, MEMORY, GPUS, GPU_TYPE = ("mem01", "mem02"), 4, 4 << 30, 4, "l40s"
GRACE_S = 1.0
_NEVER = "never"


@dataclass
class Task:
    """A job or one task of an array, with the record that polls return."""

    request: SubmitRequest
    record: SchedulerJob
    array_id: str
    throttle: int | None
    gpus: dict[str, list[int]] = field(default_factory=dict)
    time_limit_s: int = 0
    cancelled: bool = False
    held: bool = False
    process: asyncio.subprocess.Process | None = None

    def update(self, **changes: Any) -> None:
        """Replace the record; an equal one stays the same object."""
        record = self.record.model_copy(update=changes)
        if record != self.record:
            self.record = record


class MemoryCluster:
    """The nodes and the queue, which outlive the scheduler adapters that use them."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.drained: dict[str, str] = {}
        self.changed = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        self._next_id = 1

    def submit(self, request: SubmitRequest) -> str:
        """Queue the job and start what fits; return its id."""
        wanted = request.resources
        if wanted.nodes > len(NODES) or wanted.cpu > CPUS or wanted.gpu.count > GPUS:
            raise SchedulerRejected(f"No {wanted.nodes} nodes have that many CPUs and GPUs.")
        array_id = str(self._next_id)
        self._next_id += 1
        array = parse_array(request.array) if request.array else None
        for index in (None,) if array is None else array.indices:
            record = SchedulerJob(
                scheduler_id=array_id if index is None else f"{array_id}_{index}",
                job_id=request.job_id,
                attempt=request.attempt,
                array_task_id=index,
                account=request.account,
                state=JobState.QUEUED,
                submitted_at=datetime.now(UTC),
                time_limit_s=request.time_limit_s,
            )
            throttle = None if array is None else array.throttle
            self.tasks.append(Task(request, record, array_id, throttle, held=request.hold))
        if request.begin_at is not None:
            delay_s = (request.begin_at - datetime.now(UTC)).total_seconds()
            asyncio.get_running_loop().call_later(max(0.0, delay_s), self.schedule)
        self.schedule()
        return array_id

    def of(self, run: Run) -> list[Task]:
        """Return the tasks of exactly this attempt that have the id."""
        identity = (run.job_id, run.attempt)
        return [
            task
            for task in self.tasks
            if (task.record.job_id, task.record.attempt) == identity
            and run.scheduler_id in (task.array_id, task.record.scheduler_id)
        ]

    def cancel(self, tasks: Sequence[Task]) -> None:
        """End the tasks: waiting ones at once, running ones by SIGTERM and then SIGKILL."""
        for task in tasks:
            task.cancelled = True
            if task.record.state is JobState.QUEUED:
                self._end(task, JobState.CANCELLED, TerminationReason.CANCELLED)
            elif task.process is not None and task.process.returncode is None:
                self._kill(task, signal.SIGTERM)
                asyncio.get_running_loop().call_later(GRACE_S, self._kill, task, signal.SIGKILL)
        self.schedule()

    def free(self, name: str) -> tuple[int, int, list[int]]:
        """Return the CPUs, bytes of memory and GPUs of a node that no job has."""
        holders = [task for task in self._live() if name in task.record.nodes]
        used_gpus = [gpu for task in holders for gpu in task.gpus[name]]
        return (
            CPUS - sum(task.request.resources.cpu for task in holders),
            MEMORY - sum(task.request.resources.memory_bytes for task in holders),
            [gpu for gpu in range(GPUS) if gpu not in used_gpus],
        )

    def schedule(self) -> None:
        """Start what fits, first come first served; state why the others wait."""
        for task in self.tasks:
            if task.record.state is not JobState.QUEUED:
                continue
            waits_for = self._dependency(task)
            if waits_for == _NEVER:
                self._end(task, JobState.CANCELLED, TerminationReason.DEPENDENCY_FAILED)
                continue
            siblings = [other for other in self._live() if other.array_id == task.array_id]
            begin_at = task.request.begin_at
            if waits_for is not None:
                task.update(pending_reason=f"Waits for job {waits_for} to complete.")
            elif task.held:
                task.update(pending_reason="Is held; it starts after a release.")
            elif begin_at is not None and begin_at > datetime.now(UTC):
                task.update(pending_reason="Waits for the time before which it may not start.")
            elif task.throttle is not None and len(siblings) >= task.throttle:
                task.update(pending_reason="Waits for its array: enough of its tasks run.")
            else:
                self._start_if_it_fits(task)
        self.changed.set()

    def _dependency(self, task: Task) -> str | None:
        """Return the job that it waits for, or ``_NEVER``; None if it waits for none."""
        request = task.request
        index = task.record.array_task_id
        groups = [(name, self._named(name), True, False) for name in request.after]
        groups += [
            (
                name,
                [one for one in self._named(name) if one.record.array_task_id == index],
                True,
                False,
            )
            for name in request.aftercorr
        ]
        groups += [(name, self._named(name), True, True) for name in request.afterany]
        groups += [(name, self._named(name), False, True) for name in request.afternotok]
        waits_for = None
        for name, others, success, failure in groups:
            ended = all(other.record.state.is_terminal for other in others)
            failed = any(self._failed(other) for other in others)
            if (failed and not failure) or (ended and not failed and not success):
                return _NEVER
            if not ended:
                waits_for = name
        return waits_for

    def hold(self, tasks: Sequence[Task], *, held: bool) -> None:
        """Hold or release the waiting ones among the tasks."""
        waiting = [task for task in tasks if task.record.state is JobState.QUEUED]
        if not waiting:
            raise SchedulerRejected("The job does not wait any more.")
        for task in waiting:
            task.held = held
        self.schedule()

    def throttle(self, tasks: Sequence[Task], max_parallel: int | None) -> None:
        """Set how many of the tasks may run at once."""
        for task in tasks:
            task.throttle = max_parallel
        self.schedule()

    def _start_if_it_fits(self, task: Task) -> None:
        wanted = task.request.resources
        chosen = []
        for name in NODES:
            cpus, memory, gpus = self.free(name)
            fits = cpus >= wanted.cpu and memory >= wanted.memory_bytes
            fits = fits and name not in task.request.exclude
            if name not in self.drained and fits and len(gpus) >= wanted.gpu.count:
                chosen.append(name)
                task.gpus[name] = gpus[: wanted.gpu.count]
        chosen.sort(key=lambda name: name not in task.request.nodes)
        if len(chosen) < wanted.nodes or not set(task.request.nodes) <= set(chosen):
            task.gpus.clear()
            task.update(pending_reason="Waits for resources.")
            return
        task.update(
            state=JobState.RUNNING,
            pending_reason=None,
            nodes=tuple(chosen[: wanted.nodes]),
            started_at=datetime.now(UTC),
        )
        task.time_limit_s = task.request.time_limit_s
        running = asyncio.create_task(self._run(task))
        self._background.add(running)
        running.add_done_callback(self._background.discard)

    async def _run(self, task: Task) -> None:
        folder, index = Path(task.request.job_dir), task.record.array_task_id
        with open(folder / log_file_name(index), "ab", opener=_private) as log:
            task.process = await asyncio.create_subprocess_exec(
                *("bash", str(folder / SCRIPT)),
                cwd=folder,
                env=_environment(task),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if task.cancelled:
            self.cancel([task])
        timed_out = False
        while task.process.returncode is None:
            passed = (datetime.now(UTC) - (task.record.started_at or _never())).total_seconds()
            try:
                await asyncio.wait_for(task.process.wait(), max(0.0, task.time_limit_s - passed))
            except TimeoutError:
                timed_out = passed >= task.time_limit_s
                if timed_out:
                    self._kill(task, signal.SIGKILL)
        code = task.process.returncode
        task.update(exit_code=code if code >= 0 else None, signal=-code if code < 0 else None)
        if task.cancelled:
            self._end(task, JobState.CANCELLED, TerminationReason.CANCELLED)
        elif timed_out:
            self._end(task, JobState.TIMED_OUT, TerminationReason.TIMED_OUT)
        elif code == 0:
            self._end(task, JobState.COMPLETED, TerminationReason.COMPLETED)
        else:
            self._end(task, JobState.FAILED, TerminationReason.FAILED)
        self.schedule()

    def _end(self, task: Task, state: JobState, reason: TerminationReason) -> None:
        task.update(state=state, reason=reason, pending_reason=None, ended_at=datetime.now(UTC))
        self.changed.set()

    def _kill(self, task: Task, number: signal.Signals) -> None:
        if task.process is not None and task.process.returncode is None:
            with suppress(ProcessLookupError):  # it has ended and its exit code is on the way
                os.killpg(task.process.pid, number)

    def _live(self) -> list[Task]:
        return [task for task in self.tasks if task.record.state is JobState.RUNNING]

    def _named(self, scheduler_id: str) -> list[Task]:
        return [task for task in self.tasks if task.array_id == scheduler_id]

    @staticmethod
    def _failed(task: Task) -> bool:
        return task.record.state.is_terminal and task.record.state is not JobState.COMPLETED


CLUSTERS: dict[Path, MemoryCluster] = {}
"""The cluster of each data directory."""


class MemoryScheduler:
    """Implementation of ``core.ports.scheduler.Scheduler`` for a ``MemoryCluster``."""

    name = "memory"
    capabilities = SchedulerCapabilities(
        title="the memory scheduler",
        remote=True,
        runs_as_users=True,
        shared=True,
        drains=True,
        partitions=True,
        slurm_options=False,
        limits=False,
    )
    settle_s = 0.0

    def __init__(self, settings: Settings, tools: Tools) -> None:
        self._files = tools.files
        self._cluster = CLUSTERS.setdefault(settings.data_dir, MemoryCluster())

    async def start(self) -> Sequence[str]:
        """Start the waiting jobs that fit."""
        self._cluster.schedule()
        return ()

    async def close(self) -> None:
        """Keep the jobs running."""

    async def submit(self, request: SubmitRequest) -> str:
        """Write the job's files and queue it."""
        place = JobLocation(
            job_id=request.job_id,
            attempt=request.attempt,
            folder=str(Path(request.job_dir).parent),
            account=request.account,
        )
        await self._files.create_attempt_folder(
            place, {**request.files, SCRIPT: request.script.encode()}
        )
        return self._cluster.submit(request)

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Return None: it predicts nothing."""
        return None

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of these attempts."""
        wanted = {(run.job_id, run.attempt) for run in runs}
        return [row for row in await self.poll() if (row.job_id, row.attempt) in wanted]

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the records of all jobs and tasks."""
        return [task.record for task in self._cluster.tasks]

    async def cancel(self, run: Run) -> None:
        """End the job, array or task."""
        self._cluster.cancel(self._cluster.of(run))

    async def hold(self, run: Run) -> None:
        """Hold the waiting tasks of a job."""
        self._cluster.hold(self._cluster.of(run), held=True)

    async def release(self, run: Run) -> None:
        """Let it start again."""
        self._cluster.hold(self._cluster.of(run), held=False)

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Set how many tasks of the array may run at once."""
        self._cluster.throttle(self._cluster.of(run), max_parallel)

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Set the time limit of running tasks."""
        tasks = [task for task in self._cluster.of(run) if task.record.state is JobState.RUNNING]
        if not tasks:
            raise SchedulerRejected(f"Job {run.scheduler_id} does not run.")
        for task in tasks:
            started = task.record.started_at or _never()
            if time_limit_s <= (datetime.now(UTC) - started).total_seconds():
                raise SchedulerRejected(f"A limit of {time_limit_s} s lies in the past.")
            task.time_limit_s = time_limit_s
            task.update(time_limit_s=time_limit_s)

    async def read_cluster(self) -> Cluster:
        """Return the nodes, which are all in one partition."""
        now = datetime.now(UTC)
        partition = Partition(name="all", default=True, nodes=NODES)
        return Cluster(
            nodes=tuple(self._node(name, now) for name in NODES),
            partitions=(partition,),
            seen_at=now,
        )

    def _node(self, name: str, now: datetime) -> Node:
        cpus, memory, gpus = self._cluster.free(name)
        reason = self._cluster.drained.get(name)
        state = NodeState.IDLE if cpus == CPUS else NodeState.MIXED if cpus else NodeState.ALLOCATED
        return Node(
            name=name,
            state=NodeState.DRAINED if reason is not None else state,
            reason=reason,
            cpu_total=CPUS,
            cpu_used=CPUS - cpus,
            memory_total_bytes=MEMORY,
            memory_used_bytes=MEMORY - memory,
            gpus=(GpuCount(type=GPU_TYPE, total=GPUS, used=GPUS - len(gpus)),),
            partitions=("all",),
            address="127.0.0.1",
            seen_at=now,
        )

    async def drain(self, node: str, reason: str) -> None:
        """Start nothing more on the node."""
        self._cluster.drained[node] = reason

    async def resume(self, node: str) -> None:
        """Use the node again."""
        self._cluster.drained.pop(node, None)
        self._cluster.schedule()

    async def wait_for_change(self) -> None:
        """Return after the next change."""
        await self._cluster.changed.wait()
        self._cluster.changed.clear()


def _environment(task: Task) -> dict[str, str]:
    """Return the variables that scripts of Slurm expect, and the job's folder."""
    request, record = task.request, task.record
    own = {
        "PWD": request.job_dir,
        "SLURM_JOB_ID": record.scheduler_id.partition("_")[0],
        "SLURM_JOB_NAME": request.name.replace("\0", ""),
        "SLURM_JOB_NUM_NODES": str(len(record.nodes)),
        "SLURM_JOB_NODELIST": compress_hostlist(record.nodes),
        "SLURM_CPUS_ON_NODE": str(request.resources.cpu),
        "SLURM_MEM_PER_NODE": str(request.resources.memory_bytes >> 20),
    }
    if request.resources.gpu.count:
        own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, task.gpus[record.nodes[0]]))
    if record.array_task_id is not None:
        own |= {
            "SLURM_ARRAY_JOB_ID": task.array_id,
            "SLURM_ARRAY_TASK_ID": str(record.array_task_id),
        }
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **own}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _never() -> datetime:
    return datetime.max.replace(tzinfo=UTC)


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Install the scheduler as a distribution in ``folder``, which names it by an entry point."""
    metadata = folder / "aitne_memory_scheduler-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: aitne-memory-scheduler\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(
        f"[aitne.schedulers]\nmemory = {__name__}:MemoryScheduler\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        get_scheduler_capabilities.cache_clear()
        yield
    get_scheduler_capabilities.cache_clear()
