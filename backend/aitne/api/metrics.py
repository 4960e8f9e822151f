"""Prometheus metrics: those that this process counts, and the values that ``Measurements`` collects
from the others."""

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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from aitne.core.errors import AitneError, Unavailable
from aitne.core.platform import metric_names
from aitne.services.monitoring.measurements import Values

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class ApiMetrics:
    """Prometheus metrics of one API application, with a registry of their own, so that tests can
    create several applications."""

    def __init__(self) -> None:
        # They would add a second, unused series for each metric.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        duration = metric_names.HTTP_REQUEST_DURATION
        self._duration = Histogram(
            duration.name,
            duration.help,
            duration.labels,
            registry=self.registry,
            buckets=_BUCKETS,
        )
        failures = metric_names.AUTH_FAILURES
        self._failures = Counter(
            failures.name, failures.help, failures.labels, registry=self.registry
        )
        clients = metric_names.SSE_CLIENTS
        self.sse_clients = Gauge(clients.name, clients.help, registry=self.registry)
        self._measured = _Measured()
        self.registry.register(self._measured)

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record one finished request. ``route`` is the route's path template, such as
        ``/api/v1/jobs/{job_id}``, and ``seconds`` its duration."""
        self._duration.labels(method, route, str(status)).observe(seconds)

    def count_rejected_credential(self, credential: str, error: AitneError) -> None:
        """Count a rejected credential: ``credential`` is ``token`` or ``cookie``. Failures of the
        database (``Unavailable``) are not counted."""
        if not isinstance(error, Unavailable):
            self._failures.labels(f"{credential}_{error.code}").inc()

    def render(self, values: Values) -> bytes:
        """Return all metrics in Prometheus' text format. ``values`` are those that other processes
        or the database know."""
        self._measured.values = values
        return generate_latest(self.registry)


class _Measured(Collector):
    """Metrics with values that this process does not count itself."""

    def __init__(self) -> None:
        self.values: Values = {}

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for metric, values in self.values.items():
            counter = metric.type == "counter"
            family = (CounterMetricFamily if counter else GaugeMetricFamily)(
                metric.name, metric.help, labels=metric.labels
            )
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family
