"""Forecast of free GPUs: running jobs end at their time limits, and pending jobs use released GPUs.
Pure arithmetic.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple

from aitne.core.models.base import Frozen, UtcTime, deprecated_copy
from aitne.core.models.cluster import Node

HORIZON = timedelta(hours=24)
"""Length of a forecast; what happens later depends mostly on jobs that are not submitted yet."""


class GpuUse(NamedTuple):
    """Number of GPUs that one job has been allocated or, if ``nodes`` is empty, that a pending job
    requests.
    """

    nodes: tuple[str, ...]
    type: str | None
    """GPU type that the job requested; None: any type."""
    gpus: int
    """Number of GPUs on all nodes of the job together."""
    ends_at: datetime | None
    """Time at which the job reaches its time limit; None: unknown."""


class FreeGpus(Frozen):
    """Number of GPUs of one type that are free from a time on, in a forecast."""

    at: UtcTime
    """Time from which they are free."""
    free: int


class GpuCapacity(Frozen):
    """The GPUs of one type on all nodes."""

    type: str | None
    """GPU type; None means GPUs without a type."""
    total: int
    """Number of GPUs of this type."""
    free: int
    """Number that could be allocated to a job now."""
    used: int
    """Number of GPUs that are allocated to jobs."""
    unavailable: int
    """Number on nodes that start no jobs."""
    end_unknown: int
    """Number in use by jobs whose end is unknown, such as those past their time limit."""
    waiting: int
    """Number that pending jobs request; requests without a type count for every type."""
    next_free_at: UtcTime | None
    """Time by which the next GPU is released at the latest; None if that is unknown."""
    forecast: tuple[FreeGpus, ...]
    """Number of free GPUs over time, beginning now, if no further job is started."""
    out: ClassVar = deprecated_copy("unavailable", int)
    without_end: ClassVar = deprecated_copy("end_unknown", int)


def forecast_gpus(
    nodes: Sequence[Node], uses: Sequence[GpuUse], awaited: Sequence[GpuUse], now: datetime
) -> tuple[GpuCapacity, ...]:
    """Return the capacity and the forecast of each GPU type, in alphabetical order.

    Args:
        nodes: all nodes of the cluster.
        uses: GPUs that running jobs hold.
        awaited: GPUs that pending jobs request.
        now: time at which the forecast begins.
    """
    types = sorted(
        {gpu.type for node in nodes for gpu in node.gpus if gpu.total}, key=lambda name: name or ""
    )
    by_name = {node.name: node for node in nodes}
    returned = _list_gpu_releases(by_name, uses, now)
    return tuple(
        _forecast_gpu_type(kind, nodes, returned.get(kind, []), awaited, now) for kind in types
    )


def compute_node_waits(
    nodes: Sequence[Node], uses: Sequence[GpuUse], now: datetime
) -> dict[str, float]:
    """Return, by node name, the maximum time in seconds until all GPUs in use on the node are
    released.

    Nodes without GPUs in use are omitted, and so are nodes with GPUs of jobs whose end is unknown.
    """
    held: Counter[str] = Counter()
    ends: dict[str, float] = {}
    for use in uses:
        if use.ends_at is None or not use.nodes:
            continue
        wait_s = max(60.0, (use.ends_at - now).total_seconds() // 1)
        for name in use.nodes:
            held[name] += use.gpus // len(use.nodes)
            ends[name] = max(ends.get(name, 0.0), wait_s)
    return {
        node.name: ends[node.name]
        for node in nodes
        if node.state.is_usable and 0 < sum(gpu.used for gpu in node.gpus) <= held[node.name]
    }


def _forecast_gpu_type(
    kind: str | None,
    nodes: Sequence[Node],
    returned: list[tuple[datetime, int]],
    awaited: Sequence[GpuUse],
    now: datetime,
) -> GpuCapacity:
    total = used = free = unavailable = 0
    for node in nodes:
        for gpu in node.gpus:
            if gpu.type != kind:
                continue
            total += gpu.total
            used += gpu.used
            if node.state.is_usable:
                free += max(0, gpu.total - gpu.used)
            else:
                unavailable += max(0, gpu.total - gpu.used)
    heapq.heapify(returned)
    steps = [FreeGpus(at=now, free=free)]
    returning = sum(count for _, count in returned)
    level = free
    while returned:
        at, count = heapq.heappop(returned)
        level = min(total, level + count)
        if at > now + HORIZON:
            break
        if steps[-1].at == at:
            steps.pop()
        steps.append(FreeGpus(at=at, free=level))
    return GpuCapacity(
        type=kind,
        total=total,
        free=free,
        used=used,
        unavailable=unavailable,
        end_unknown=max(0, used - returning),
        waiting=sum(use.gpus for use in awaited if use.type in (None, kind)),
        next_free_at=steps[1].at if len(steps) > 1 else None,
        forecast=tuple(steps),
    )


def _list_gpu_releases(
    nodes: dict[str, Node], uses: Sequence[GpuUse], now: datetime
) -> dict[str | None, list[tuple[datetime, int]]]:
    """Return when running jobs release GPUs on usable nodes: for each GPU type, pairs of time and
    number.

    A job past its time limit is about to end, so its GPUs are counted as released shortly after
    ``now``.
    """
    releases: dict[str | None, list[tuple[datetime, int]]] = {}
    for use in uses:
        if use.ends_at is None or not use.nodes:
            continue
        per_node = use.gpus // len(use.nodes)
        counts: Counter[str | None] = Counter()
        for name in use.nodes:
            node = nodes.get(name)
            if node is not None and node.state.is_usable:
                counts[_find_used_gpu_type(node, use)] += per_node
        for kind, count in counts.items():
            at = _round_up_to_minute(max(use.ends_at, now + timedelta(minutes=1)))
            releases.setdefault(kind, []).append((at, count))
    return releases


def _round_up_to_minute(moment: datetime) -> datetime:
    """Return ``moment`` rounded up to a full minute, so that forecasts have fewer steps."""
    full = moment.replace(second=0, microsecond=0)
    return full if full == moment else full + timedelta(minutes=1)


def _find_used_gpu_type(node: Node, use: GpuUse) -> str | None:
    """Return the GPU type that a job on the node uses; if it requested no type, the type most used
    on the node.
    """
    if use.type is not None:
        return use.type
    return max(node.gpus, key=lambda gpu: gpu.used).type if node.gpus else None
