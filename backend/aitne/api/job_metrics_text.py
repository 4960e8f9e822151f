"""Metrics of live jobs in Prometheus' text format.

The text is written by hand: there may be 100,000 lines, and the client library needs ten times as
long for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aitne.core.jobs.usage_sample_values import SAMPLE_VALUES
from aitne.core.platform import metric_names
from aitne.core.platform.metric_names import Metric
from aitne.services.jobs.live_usage import LiveJobUsage


def _make_getter(index: int) -> Callable[[LiveJobUsage], float | None]:
    return lambda usage: usage.values[index]


_METRICS: Sequence[tuple[Metric, Callable[[LiveJobUsage], float | None]]] = (
    (metric_names.JOB_CPUS_USED, lambda usage: usage.cpus),
    (metric_names.JOB_CPUS_ALLOCATED, lambda usage: usage.cpus_allocated),
    (metric_names.JOB_MEMORY_USED, lambda usage: usage.memory_bytes),
    (metric_names.JOB_MEMORY_ALLOCATED, lambda usage: usage.memory_allocated_bytes),
    (metric_names.JOB_PROCESSES, lambda usage: usage.processes),
    (metric_names.JOB_GPUS_ALLOCATED, lambda usage: usage.gpus_allocated),
    *((value.metric, _make_getter(index)) for index, value in enumerate(SAMPLE_VALUES)),
    (metric_names.JOB_COMMUNICATION, lambda usage: usage.communication),
)
JOB_METRICS = tuple(metric for metric, _ in _METRICS)
"""All metrics of jobs."""


def render_job_metrics(usages: Iterable[LiveJobUsage]) -> bytes:
    """Return the series of all jobs, grouped by metric; values that were not measured are
    absent.
    """
    # Two rows of the platform may have one job of the scheduler for a moment: the newest counts.
    by_id = {escape_label_value(usage.jobid): usage for usage in usages}
    lines: list[str] = []
    for metric, value_of in _METRICS:
        lines.append(f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n")
        begin = f'{metric.name}{{jobid="'
        for jobid, usage in by_id.items():
            value = value_of(usage)
            if value is not None:
                lines.append(f'{begin}{jobid}"}} {value}\n')
    return "".join(lines).encode()


def escape_label_value(value: str) -> str:
    """Escape a label value for the Prometheus text format (backslash, double quote, newline)."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
