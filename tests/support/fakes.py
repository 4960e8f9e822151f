"""Schedulers that fail on purpose, each named after its failure.

``FakeScheduler`` starts what fits its one endless node at once; a test ends jobs with ``finish``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from aitne.core import units
from aitne.core.errors import SchedulerRejected, SchedulerUnavailable, SubmitUncertain
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.ports.scheduler import (
    Forecast,
    Run,
    SchedulerCapabilities,
    SchedulerJob,
    SubmitRequest,
)


class FakeScheduler:
    """Keeps its jobs in memory and counts what it is asked."""

    name = "fake"
    capabilities = SchedulerCapabilities(
        title="the fake scheduler",
        remote=False,
        runs_as_users=False,
        shared=False,
        drains=True,
        partitions=False,
        slurm_options=False,
        limits=False,
    )
    settle_s = 15.0

    def __init__(self) -> None:
        self.records: dict[str, SchedulerJob] = {}
        self.requests: list[SubmitRequest] = []
        self.polls = 0
        self.searches = 0
        self.looks = 0
        self.node = Node(
            name="node01",
            state=NodeState.IDLE,
            cpu_total=1_000,
            cpu_used=0,
            memory_total_bytes=1 << 42,
            memory_used_bytes=0,
            seen_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        self.started_at: datetime | None = None
        self.cancelled: list[str] = []
        self.orders: list[tuple[str, str]] = []
        self._next_id = 1
        self._changed = asyncio.Event()

    async def start(self) -> Sequence[str]:
        """Connect to nothing; return no notes."""
        return ()

    async def close(self) -> None:
        """Close nothing: no connection is open."""

    async def submit(self, request: SubmitRequest) -> str:
        """Accept the job in the state `_first_state`."""
        return self._accept(request)

    def _accept(self, request: SubmitRequest) -> str:
        self.requests.append(request)
        scheduler_id = str(self._next_id)
        self._next_id += 1
        indices: Sequence[int | None] = (
            units.parse_array(request.array).indices if request.array else (None,)
        )
        for index in indices:
            own = scheduler_id if index is None else f"{scheduler_id}_{index}"
            self.records[own] = SchedulerJob(
                scheduler_id=own,
                job_id=request.job_id,
                attempt=request.attempt,
                array_task_id=index,
                state=self._first_state(),
                submitted_at=datetime.now(UTC),
                time_limit_s=request.time_limit_s,
                **self._allocation(),
            )
        self._changed.set()
        return scheduler_id

    def _first_state(self) -> JobState:
        return JobState.RUNNING

    def _allocation(self) -> dict[str, object]:
        if self._first_state() is not JobState.RUNNING:
            return {"pending_reason": "Waits because the test says so."}
        return {"nodes": ("node01",), "started_at": datetime.now(UTC)}

    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        """Return None: there is no forecast."""
        return None

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of the runs by job and attempt; count the search."""
        self.searches += 1
        wanted = {(run.job_id, run.attempt) for run in runs}
        return [r for r in self.records.values() if (r.job_id, r.attempt) in wanted]

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return all records and count the poll."""
        self.polls += 1
        return list(self.records.values())

    async def cancel(self, run: Run) -> None:
        """End it, or every task of the array."""
        scheduler_id = str(run.scheduler_id)
        self.cancelled.append(scheduler_id)
        for own, record in self.records.items():
            mine = own == scheduler_id or own.startswith(f"{scheduler_id}_")
            if mine and not record.state.is_terminal:
                self.finish(own, JobState.CANCELLED, TerminationReason.CANCELLED)

    async def hold(self, run: Run) -> None:
        """Note it; only what waits."""
        self._waits(run)
        self.orders.append(("hold", str(run.scheduler_id)))

    async def release(self, run: Run) -> None:
        """Note it; only what waits."""
        self._waits(run)
        self.orders.append(("release", str(run.scheduler_id)))

    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        """Record the order with the new limit."""
        self.orders.append((f"throttle {max_parallel}", str(run.scheduler_id)))

    def _waits(self, run: Run) -> None:
        scheduler_id = str(run.scheduler_id)
        states = [
            record.state
            for own, record in self.records.items()
            if own == scheduler_id or own.startswith(f"{scheduler_id}_")
        ]
        if JobState.QUEUED not in states:
            raise SchedulerRejected(f"Job {scheduler_id} does not wait any more.")

    async def extend(self, run: Run, time_limit_s: int) -> None:
        """Change the time limit of a running job."""
        scheduler_id = str(run.scheduler_id)
        record = self.records.get(scheduler_id)
        if record is None or record.state is not JobState.RUNNING:
            raise SchedulerRejected(f"Job {scheduler_id} does not run.")
        self.change(scheduler_id, time_limit_s=time_limit_s)

    async def read_cluster(self) -> Cluster:
        """Return a cluster of one large node; count the call."""
        self.looks += 1
        return Cluster(nodes=(self.node,), started_at=self.started_at)

    async def drain(self, node: str, reason: str) -> None:
        """Mark the node as drained."""
        self.node = self.node.model_copy(update={"state": NodeState.DRAINED, "reason": reason})

    async def resume(self, node: str) -> None:
        """Mark the node as idle."""
        self.node = self.node.model_copy(update={"state": NodeState.IDLE, "reason": None})

    async def wait_for_change(self) -> None:
        """Wait until the test changes a record."""
        await self._changed.wait()
        self._changed.clear()

    def change(self, scheduler_id: str, **fields: object) -> None:
        """Replace fields of one record."""
        self.records[scheduler_id] = self.records[scheduler_id].model_copy(update=fields)
        self._changed.set()

    def finish(
        self,
        scheduler_id: str,
        state: JobState = JobState.COMPLETED,
        reason: TerminationReason = TerminationReason.COMPLETED,
        exit_code: int | None = 0,
    ) -> None:
        """End one job or task."""
        self.change(
            scheduler_id,
            state=state,
            reason=reason,
            exit_code=exit_code,
            ended_at=datetime.now(UTC),
        )


class SlowStart(FakeScheduler):
    """Jobs wait until ``let_go``."""

    def _first_state(self) -> JobState:
        return JobState.QUEUED

    def let_go(self) -> None:
        """Start all that waits."""
        for own, record in self.records.items():
            if record.state is JobState.QUEUED:
                self.change(
                    own,
                    state=JobState.RUNNING,
                    nodes=("node01",),
                    started_at=datetime.now(UTC),
                    pending_reason=None,
                )


class NeverStarts(SlowStart):
    """Jobs wait for ever."""

    def let_go(self) -> None:
        """Leave the jobs waiting."""


class Vanishes(FakeScheduler):
    """Knows nothing of a job any more once ``vanish`` was called for it."""

    def vanish(self, scheduler_id: str) -> None:
        """Delete the record of a job."""
        del self.records[scheduler_id]
        self._changed.set()


class ControllerDown(FakeScheduler):
    """Answers nothing while ``down``."""

    def __init__(self) -> None:
        super().__init__()
        self.down = True

    def _check(self) -> None:
        if self.down:
            raise SchedulerUnavailable("the scheduler is down because the test says so.")

    async def submit(self, request: SubmitRequest) -> str:
        """Submit the job, except while the controller is down."""
        self._check()
        return await super().submit(request)

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return all records, except while the controller is down."""
        self._check()
        return await super().poll()

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Find the runs, except while the controller is down."""
        self._check()
        return await super().find_records(runs)

    async def cancel(self, run: Run) -> None:
        """Cancel the job, except while the controller is down."""
        self._check()
        await super().cancel(run)


class AmbiguousSubmit(FakeScheduler):
    """The first submission times out: ``arrives`` says whether the work was done all the same."""

    def __init__(self, *, arrives: bool) -> None:
        super().__init__()
        self.arrives = arrives
        self._timed_out = False

    async def submit(self, request: SubmitRequest) -> str:
        """Time out at the first submission, and accept later ones."""
        if self._timed_out:
            return self._accept(request)
        self._timed_out = True
        if self.arrives:
            self._accept(request)
        raise SubmitUncertain("the scheduler did not answer in time.")
