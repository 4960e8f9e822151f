"""A job's profile in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from aitne.core.models.collective_profile import Profile, SizeRow
from aitne.core.platform import metric_names
from aitne.core.platform.metric_names import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_Family = CounterMetricFamily | GaugeMetricFamily


def prefers_text(accept: str | None) -> bool:
    """Return whether an Accept header names ``text/plain`` but not ``application/json``."""
    kinds = [media_type.partition(";")[0].strip() for media_type in (accept or "").split(",")]
    return "text/plain" in kinds and "application/json" not in kinds


def render_profile(profile: Profile) -> bytes:
    """Return the profile in Prometheus' text format; unknown numbers are omitted."""
    registry = CollectorRegistry()
    registry.register(_Families(profile))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def collect(self) -> Iterator[_Family]:
        profile = self._profile
        yield from _make_family(metric_names.DISTRIB_RANKS, [((), profile.size)])
        yield from _make_family(metric_names.DISTRIB_STEPS, [((), profile.steps)])
        yield from _make_family(metric_names.DISTRIB_STEP, [((), profile.step_s)])
        yield from _make_family(metric_names.DISTRIB_COMMUNICATING, [((), profile.communicating)])
        yield from _make_family(metric_names.DISTRIB_BLOCKED, [((), profile.blocked)])
        yield from _make_family(metric_names.DISTRIB_OVERLAP, [((), profile.overlap)])
        slowest = profile.straggler
        yield from _make_family(
            metric_names.DISTRIB_STRAGGLER,
            [] if slowest is None else [((str(slowest.rank),), slowest.behind_s)],
        )
        rows = profile.table
        yield from _make_family(
            metric_names.DISTRIB_COLLECTIVES, [(_make_size_labels(row), row.count) for row in rows]
        )
        yield from _make_family(
            metric_names.DISTRIB_BYTES, [(_make_size_labels(row), row.bytes) for row in rows]
        )
        yield from _make_family(
            metric_names.DISTRIB_SECONDS, [(_make_size_labels(row), row.time_s) for row in rows]
        )


def _make_family(
    metric: Metric, samples: Iterable[tuple[Sequence[str], float | None]]
) -> Iterator[_Family]:
    make = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        if value is not None:
            family.add_metric(labels, value)
    if family.samples:
        yield family


def _make_size_labels(row: SizeRow) -> tuple[str, str]:
    return row.op, f"{row.from_bytes}-{'' if row.to_bytes is None else row.to_bytes}"
