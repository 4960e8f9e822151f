"""Counters of the controller.

The controller has no port for metrics, so it stores the values in the database row of its lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from typing_extensions import override

from aitne.core.errors import SchedulerUnavailable
from aitne.core.models.cluster import Cluster
from aitne.core.platform.metric_names import (
    SCHEDULER_RPC,
    SCHEDULER_RPC_FAILURES,
    SCHEDULER_RPC_SECONDS,
    Metric,
)
from aitne.core.ports.scheduler import (
    Forecast,
    Run,
    Scheduler,
    SchedulerCapabilities,
    SchedulerJob,
    SubmitRequest,
)

Counters = dict[str, dict[str, float]]
"""Values of each metric by metric name and label value."""


class ControllerCounters:
    """Counters since the start of this controller, by metric and label."""

    def __init__(self) -> None:
        self._counters: Counters = {}

    def add(self, metric: Metric, label: str, amount: float = 1.0) -> None:
        """Increase the metric's counter for the label by ``amount``."""
        of_metric = self._counters.setdefault(metric.name, {})
        of_metric[label] = of_metric.get(label, 0.0) + amount

    def set_value(self, metric: Metric, value: float) -> None:
        """Set the current value of a metric that has no labels."""
        self._counters[metric.name] = {"": value}

    def snapshot(self) -> Counters:
        """Return a copy of all counters."""
        return {name: dict(values) for name, values in self._counters.items()}


class CountedScheduler(Scheduler):
    """Scheduler adapter that forwards all calls to another adapter, and counts and times them."""

    def __init__(self, scheduler: Scheduler, counts: ControllerCounters) -> None:
        self._scheduler = scheduler
        self._counts = counts
        self.name = scheduler.name

    @property
    @override
    def capabilities(self) -> SchedulerCapabilities:
        return self._scheduler.capabilities

    @property
    @override
    def settle_s(self) -> float:
        # Read each time: an adapter may determine it only when it starts.
        return self._scheduler.settle_s

    @settle_s.setter
    def settle_s(self, value: float) -> None:
        self._scheduler.settle_s = value

    @override
    async def start(self) -> Sequence[str]:
        return await self._scheduler.start()

    @override
    async def close(self) -> None:
        await self._scheduler.close()

    @override
    async def submit(self, request: SubmitRequest) -> str:
        with self._count_call("submit"):
            return await self._scheduler.submit(request)

    @override
    async def forecast(self, request: SubmitRequest) -> Forecast | None:
        with self._count_call("forecast"):
            return await self._scheduler.forecast(request)

    @override
    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        with self._count_call("find"):
            return await self._scheduler.find_records(runs)

    @override
    async def poll(self) -> Sequence[SchedulerJob]:
        with self._count_call("poll"):
            return await self._scheduler.poll()

    @override
    async def cancel(self, run: Run) -> None:
        with self._count_call("cancel"):
            await self._scheduler.cancel(run)

    @override
    async def hold(self, run: Run) -> None:
        with self._count_call("hold"):
            await self._scheduler.hold(run)

    @override
    async def release(self, run: Run) -> None:
        with self._count_call("release"):
            await self._scheduler.release(run)

    @override
    async def throttle(self, run: Run, max_parallel: int | None) -> None:
        with self._count_call("throttle"):
            await self._scheduler.throttle(run, max_parallel)

    @override
    async def extend(self, run: Run, time_limit_s: int) -> None:
        with self._count_call("extend"):
            await self._scheduler.extend(run, time_limit_s)

    @override
    async def read_cluster(self) -> Cluster:
        with self._count_call("cluster"):
            return await self._scheduler.read_cluster()

    @override
    async def drain(self, node: str, reason: str) -> None:
        with self._count_call("drain"):
            await self._scheduler.drain(node, reason)

    @override
    async def resume(self, node: str) -> None:
        with self._count_call("resume"):
            await self._scheduler.resume(node)

    @override
    async def wait_for_change(self) -> None:
        # Sends no request to the scheduler, so it is not counted.
        await self._scheduler.wait_for_change()

    @contextmanager
    def _count_call(self, command: str) -> Iterator[None]:
        self._counts.add(SCHEDULER_RPC, command)
        began = time.perf_counter()
        try:
            yield
        except SchedulerUnavailable:
            self._counts.add(SCHEDULER_RPC_FAILURES, command)
            raise
        finally:
            self._counts.add(SCHEDULER_RPC_SECONDS, command, time.perf_counter() - began)
