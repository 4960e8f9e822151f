"""What this process measures of itself, and what it reads from the store when it is asked."""

from __future__ import annotations

from collections.abc import Iterator

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

from aitne.core import metric_names as names
from aitne.core.errors import AitneError, Unavailable
from aitne.core.metric_names import Metric
from aitne.core.ports.store import Store
from aitne.core.states import JobState

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one application; each has a registry of its own, so tests may make many."""

    def __init__(self) -> None:
        # A second series for each, which nobody asks for.
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
        self._controller = _ControllerCounters()
        self.registry.register(self._controller)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note one finished request; ``route`` is the template, never the path."""
        self._duration.labels(method, route, str(status)).observe(seconds)

    def auth_failed(self, credential: str, error: AitneError) -> None:
        """Note a refused credential. A database that does not answer refuses nobody."""
        if not isinstance(error, Unavailable):
            self._failures.labels(f"{credential}_{error.code}").inc()

    async def render(self, store: Store) -> bytes:
        """Everything in Prometheus' text format."""
        counts = await store.count_by_state()
        for state in JobState:
            self._jobs.labels(state.value).set(counts.get(state, 0))
        depth, oldest = await store.outbox_depth()
        self._depth.set(depth)
        self._oldest.set(oldest)
        lease = await store.current_lease("controller")
        self._controller.counters = {} if lease is None else lease.counters
        for last in self._controller.counters.get(names.SCHEDULER_LAST_POLL.name, {}).values():
            self._last_poll.set(last)
        return generate_latest(self.registry)


class _ControllerCounters(Collector):
    """The counters of the controller that leads, from its lease: it has no port of its own."""

    def __init__(self) -> None:
        self.counters: dict[str, dict[str, float]] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        for metric in (names.SUBMISSIONS, names.SCHEDULER_RPC, names.RECONCILE):
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for label, value in self.counters.get(metric.name, {}).items():
                family.add_metric([label], value)
            yield family
