"""Forecast of free GPUs: running jobs end by their time limits, waiting jobs take their share. Pure
arithmetic."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from aitne.core.models.base import Frozen, UtcTime, deprecated_copy
from aitne.core.models.node import Node
from aitne.core.ports.store.gpus import GpuUse

HORIZON = timedelta(hours=24)
"""Range of a forecast: later, jobs that are not submitted yet decide."""


class FreeGpus(Frozen):
    """Number of GPUs of a type that are free from a time on."""

    at: UtcTime
    """Time from which they are free."""
    free: int


class GpuCapacity(Frozen):
    """The GPUs of one type on all nodes."""

    type: str | None
    """None: GPUs without a type."""
    total: int
    """Number of GPUs of this type."""
    free: int
    """Number that a job could get now."""
    used: int
    unavailable: int
    """Number on nodes that accept no jobs."""
    end_unknown: int
    """Number in use by jobs whose end is unknown, such as those past their time limit."""
    waiting: int
    """Requested by waiting jobs; requests without a type count for every type."""
    next_free_at: UtcTime | None
    """Latest time at which the next one is released; None: unknown."""
    forecast: tuple[FreeGpus, ...]
    """Steps of how many are free, the first of them now, if nothing else is started."""
    out: ClassVar = deprecated_copy("unavailable", int)
    without_end: ClassVar = deprecated_copy("end_unknown", int)


def capacity(
    nodes: Sequence[Node], uses: Sequence[GpuUse], awaited: Sequence[GpuUse], now: datetime
) -> tuple[GpuCapacity, ...]:
    """Return, per GPU type by name, the total, what is free, and a forecast of what becomes
    free."""
    types = sorted(
        {gpu.type for node in nodes for gpu in node.gpus if gpu.total}, key=lambda name: name or ""
    )
    by_name = {node.name: node for node in nodes}
    returned = _returned(by_name, uses, now)
    return tuple(_of_type(kind, nodes, returned.get(kind, []), awaited, now) for kind in types)


def _of_type(
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
            if node.state.usable:
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


def _returned(
    nodes: dict[str, Node], uses: Sequence[GpuUse], now: datetime
) -> dict[str | None, list[tuple[datetime, int]]]:
    """Return when jobs release GPUs on usable nodes: by type, pairs of time and count.

    A job past its time limit is about to end: its GPUs are released a moment from now.
    """
    releases: dict[str | None, list[tuple[datetime, int]]] = {}
    for use in uses:
        if use.ends_at is None or not use.nodes:
            continue
        per_node = use.gpus // len(use.nodes)
        counts: Counter[str | None] = Counter()
        for name in use.nodes:
            node = nodes.get(name)
            if node is not None and node.state.usable:
                counts[_type_on(node, use)] += per_node
        for kind, count in counts.items():
            at = _minute(max(use.ends_at, now + timedelta(minutes=1)))
            releases.setdefault(kind, []).append((at, count))
    return releases


def _minute(moment: datetime) -> datetime:
    """Return the next full minute: forecasts need no seconds, and rounding keeps their steps
    few."""
    full = moment.replace(second=0, microsecond=0)
    return full if full == moment else full + timedelta(minutes=1)


def _type_on(node: Node, use: GpuUse) -> str | None:
    """Return the type that a job without a requested type got: the type most in use on the node."""
    if use.type is not None:
        return use.type
    return max(node.gpus, key=lambda gpu: gpu.used).type if node.gpus else None
