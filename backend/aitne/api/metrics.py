"""Prometheus metrics that this process measures, or reads from the database when they are
requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from aitne.core.errors import AitneError, Unavailable
from aitne.core.jobs.states import JobState
from aitne.core.platform import metric_names as names
from aitne.core.platform.metric_names import Metric
from aitne.core.ports.store import Store

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class ApiMetrics:
    """Prometheus metrics of one API application, with a registry of their own, so that tests can
    create several applications."""

    def __init__(self) -> None:
        # They would add a second, unused series for each metric.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        duration = names.HTTP_REQUEST_DURATION
        self._duration = Histogram(
            duration.name,
            duration.help,
            duration.labels,
            registry=self.registry,
            buckets=_BUCKETS,
        )
        failures = names.AUTH_FAILURES
        self._failures = Counter(
            failures.name, failures.help, failures.labels, registry=self.registry
        )
        self.sse_clients = self._gauge(names.SSE_CLIENTS)
        self._jobs = self._gauge(names.JOBS)
        self._depth = self._gauge(names.OUTBOX_DEPTH)
        self._oldest = self._gauge(names.OUTBOX_OLDEST)
        self._last_poll = self._gauge(names.SCHEDULER_LAST_POLL)
        self._last_backup = self._gauge(names.BACKUP_LAST_SUCCESS)
        self._elsewhere = _CountersElsewhere()
        self.registry.register(self._elsewhere)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record one finished request. ``route`` is the route's path template, such as
        ``/api/v1/jobs/{job_id}``, and ``seconds`` its duration."""
        self._duration.labels(method, route, str(status)).observe(seconds)

    def auth_failed(self, credential: str, error: AitneError) -> None:
        """Count a rejected credential: ``credential`` is ``token`` or ``cookie``. Failures of the
        database (``Unavailable``) are not counted."""
        if not isinstance(error, Unavailable):
            self._failures.labels(f"{credential}_{error.code}").inc()

    async def render(
        self, store: Store, hung_restarts: Mapping[str, float], last_backup: datetime | None
    ) -> bytes:
        """Return all metrics in Prometheus' text format. ``hung_restarts`` has the number of
        restarts after a hang for each process of the platform, ``last_backup`` is the time of the
        last backup; None: there was none."""
        self._last_backup.set(0.0 if last_backup is None else last_backup.timestamp())
        counts = await store.count_by_state()
        for state in JobState:
            self._jobs.labels(state.value).set(counts.get(state, 0))
        depth, oldest = await store.outbox_depth()
        self._depth.set(depth)
        self._oldest.set(oldest)
        lease = await store.current_lease("controller")
        counters = {} if lease is None else lease.counters
        for last in counters.get(names.SCHEDULER_LAST_POLL.name, {}).values():
            self._last_poll.set(last)
        restarts = {names.HUNG_RESTARTS.name: dict(hung_restarts)}
        self._elsewhere.counters = counters | restarts
        return generate_latest(self.registry)


class _CountersElsewhere(Collector):
    """Counters of processes that serve no metrics themselves: the controller, which stores its
    counters in the database, and the supervisor."""

    def __init__(self) -> None:
        self.counters: dict[str, dict[str, float]] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        for metric in (
            names.SUBMISSIONS,
            names.SCHEDULER_RPC,
            names.RECONCILE,
            names.HUNG_RESTARTS,
        ):
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for label, value in self.counters.get(metric.name, {}).items():
                family.add_metric([label], value)
            yield family
