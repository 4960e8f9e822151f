"""Metrics of a job by node and by rank, with a limited number of points for charts.

The functions have no side effects. Resource usage comes from the samples of the nodes' agents, step
times from the profile of the ranks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.collective_profile import Profile, RankRow
from aitne.core.models.job import Job
from aitne.core.models.reported_placement import ReportedPlacement
from aitne.core.models.usage_sample import Sample

MOST_POINTS = 120
"""Maximum number of points of each series."""
FEWEST_POINTS = 8
MOST_ALTOGETHER = 20_000
"""Number of points of all series together above which each has fewer than ``MOST_POINTS``."""
MOST_RANKS = 1_024
BEHIND_SHARE = 0.05
"""Fraction of a step by which a rank must compute longer than the others to count as a straggler,
as in ``aitne_train/profile_document.py``."""


class NodePoint(Frozen):
    """Resource usage of the job's processes on one node at one time."""

    time: UtcTime = Field(description="Time of the measurement.")
    cpu: float = Field(description="CPUs in use: 1.0 is one busy core.")
    memory_bytes: int = Field(description="Memory in use, in bytes.")
    gpu_utilization: float | None = Field(
        description="Mean utilization of its GPUs, from 0 to 1; null: not measured."
    )
    gpu_memory_bytes: int | None = Field(
        description="GPU memory in use, in bytes; null: not measured."
    )


class NodeSeries(Frozen):
    """Resource usage of a job on one of its nodes, over time."""

    node: str = Field(description="Name of the node.")
    number: int = Field(description="Number of the node among those of the job, from 0.")
    ranks: tuple[int, ...] = Field(description="Ranks on the node; empty: the job has none.")
    straggler: bool = Field(description="Whether one of its ranks is a straggler.")
    cpus: int = Field(description="Number of CPUs that the job has on the node.")
    memory_limit_bytes: int = Field(description="Memory that the job has on the node, in bytes.")
    gpus: int = Field(description="Number of GPUs that the job has on the node.")
    points: tuple[NodePoint, ...] = Field(description="Measurements, oldest first.")


class RankPoint(Frozen):
    """Usage of a rank's GPU at one time."""

    time: UtcTime = Field(description="Time of the measurement.")
    utilization: float = Field(description="Utilization of its GPU, from 0 to 1.")
    memory_bytes: int = Field(description="GPU memory in use, in bytes.")


class RankSeries(Frozen):
    """Measurements of one rank of a job: its steps, and its GPU over time."""

    rank: int = Field(description="Number of the rank.")
    node: str | None = Field(description="Name of its node; null: not known yet.")
    node_number: int = Field(description="Number of its node among those of the job, from 0.")
    gpu: int | None = Field(
        description="Index of its GPU on the node; null: it has none of its own."
    )
    steps: int | None = Field(description="Steps that it has completed; null: no profile.")
    step_s: float | None = Field(description="Mean duration of a step in seconds; null: unknown.")
    own_s: float | None = Field(
        description="Mean duration of a step without waits for other ranks, in seconds; null: "
        "unknown."
    )
    communicating: float | None = Field(
        description="Share of its steps in which a collective ran, from 0 to 1; null: unknown."
    )
    blocked: float | None = Field(
        description="Share of its steps in which it waited for a collective, from 0 to 1; null: "
        "unknown."
    )
    behind_s: float | None = Field(
        description="Seconds that it computes longer in each step than the median of the other "
        "ranks; null: unknown."
    )
    straggler: bool = Field(description="Whether the other ranks wait for it.")
    points: tuple[RankPoint, ...] = Field(description="Usage of its GPU, oldest first.")


class RankMetrics(Frozen):
    """Metrics of a job by node and by rank."""

    nodes: tuple[NodeSeries, ...] = Field(description="Nodes in the order of the allocation.")
    ranks: tuple[RankSeries, ...] = Field(
        description="Ranks in their order, at most 1,024; empty: the job has none."
    )


def points_for(job: Job) -> int:
    """Return the maximum number of points in each series of the job."""
    chosen = job.spec.distributed
    nodes = job.spec.resources.nodes
    series = nodes + (0 if chosen is None else min(MOST_RANKS, nodes * chosen.ranks_per_node))
    return max(FEWEST_POINTS, min(MOST_POINTS, MOST_ALTOGETHER // series))


def rank_metrics(
    job: Job,
    samples: Sequence[Sample],
    profile: Profile | None,
    placement: ReportedPlacement | None = None,
) -> RankMetrics:
    """Return the metrics of the job by node and rank.

    Args:
        samples: samples of all nodes, oldest first.
        profile: profile that the ranks reported; None: they have reported none.
        placement: placement that the agent reported; None: it has reported none.
    """
    order = job.nodes if placement is None else placement.order_nodes(job.nodes)
    by_node: dict[str, list[Sample]] = {name: [] for name in order}
    for sample in samples:
        if sample.node in by_node:
            by_node[sample.node].append(sample)
    names = list(by_node)
    ranks = _make_rank_series(job, names, by_node, profile, placement)
    ranks_of = defaultdict[int, list[RankSeries]](list)
    for rank in ranks:
        ranks_of[rank.node_number].append(rank)
    resources = job.spec.resources
    nodes = [
        NodeSeries(
            node=name,
            number=number,
            ranks=tuple(rank.rank for rank in ranks_of[number]),
            straggler=any(rank.straggler for rank in ranks_of[number]),
            cpus=resources.cpu,
            memory_limit_bytes=resources.memory_bytes,
            gpus=resources.gpu.count,
            points=tuple(map(_make_node_point, by_node[name])),
        )
        for number, name in enumerate(names)
    ]
    return RankMetrics(nodes=tuple(nodes), ranks=ranks)


def _make_rank_series(
    job: Job,
    names: Sequence[str],
    by_node: Mapping[str, Sequence[Sample]],
    profile: Profile | None,
    placement: ReportedPlacement | None,
) -> tuple[RankSeries, ...]:
    chosen = job.spec.distributed
    if chosen is None:
        return ()
    each = chosen.ranks_per_node
    own_gpu = each == job.spec.resources.gpu.count
    rows = {row.rank: row for row in profile.ranks} if profile is not None else {}
    behind = _compute_delays(rows)
    positions = {} if placement is None else _gpu_positions(placement)
    series = []
    for rank in range(min(MOST_RANKS, each * job.spec.resources.nodes)):
        number, local = divmod(rank, each)
        name = names[number] if number < len(names) else None
        measured = by_node.get(name, ()) if own_gpu and name is not None else ()
        gpu, points = _make_gpu_series(measured, positions.get(rank, local))
        row = rows.get(rank)
        late_s = behind.get(rank)
        step_s = row.step_s if row is not None else None
        series.append(
            RankSeries(
                rank=rank,
                node=name,
                node_number=number,
                gpu=gpu,
                steps=row.steps if row is not None else None,
                step_s=step_s,
                own_s=row.own_s if row is not None else None,
                communicating=row.communicating if row is not None else None,
                blocked=row.blocked if row is not None else None,
                behind_s=late_s,
                straggler=bool(late_s and step_s and late_s / step_s >= BEHIND_SHARE),
                points=points,
            )
        )
    return tuple(series)


def _gpu_positions(placement: ReportedPlacement) -> dict[int, int]:
    """Return the position of each rank's GPU among the GPUs that the ranks of its node use. The
    agents' samples contain the GPUs in this order.
    """
    by_node = defaultdict[str, dict[int, int]](dict)
    for each in placement.bindings:
        if each.gpu is not None:
            by_node[each.node][each.rank] = each.gpu
    return {
        rank: position
        for gpus in by_node.values()
        for position, rank in enumerate(sorted(gpus, key=gpus.__getitem__))
    }


def _compute_delays(rows: Mapping[int, RankRow]) -> dict[int, float]:
    """Return for each rank by how many seconds its computation in a step exceeds the median of the
    other ranks; 0 if it does not.
    """
    own = {rank: row.own_s for rank, row in rows.items() if row.own_s is not None}
    if len(own) < 2:
        return {}
    ordered = sorted(own.values())
    return {rank: max(0.0, own_s - _median_without(ordered, own_s)) for rank, own_s in own.items()}


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Return the median of the sorted numbers, leaving out one number that equals ``value``."""
    at = bisect_left(ordered, value)

    def other(number: int) -> float:
        return ordered[number + (number >= at)]

    count = len(ordered) - 1
    return (other((count - 1) // 2) + other(count // 2)) / 2


def _make_node_point(sample: Sample) -> NodePoint:
    used = [facts for facts in sample.gpu if _read_gpu_usage(facts) is not None]
    utilizations = [float(facts["utilization"]) for facts in used]
    return NodePoint(
        time=sample.time,
        cpu=sample.cpu,
        memory_bytes=sample.memory_bytes,
        gpu_utilization=sum(utilizations) / len(utilizations) if utilizations else None,
        gpu_memory_bytes=sum(int(facts["memory_bytes"]) for facts in used) if used else None,
    )


def _make_gpu_series(
    samples: Sequence[Sample], local: int
) -> tuple[int | None, tuple[RankPoint, ...]]:
    """Return the index of a GPU on its node (None: no sample is valid), and its usage over time.

    Args:
        local: position of the GPU in the samples of its node.
    """
    index, points = None, []
    for sample in samples:
        facts = _read_gpu_usage(sample.gpu[local]) if local < len(sample.gpu) else None
        if facts is not None:
            index, utilization, memory_bytes = facts
            points.append(
                RankPoint(time=sample.time, utilization=utilization, memory_bytes=memory_bytes)
            )
    return index, tuple(points)


def _read_gpu_usage(facts: Mapping[str, Any]) -> tuple[int, float, int] | None:
    """Return index, utilization (0 to 1) and used memory in bytes of a GPU. None: the values are
    invalid; the job's own program could have sent them.
    """
    match facts:
        case {"index": int(index), "utilization": int() | float() as share, "memory_bytes": int(n)}:
            return (index, float(share), n) if 0 <= share <= 1 and 0 <= n < 1 << 62 else None
    return None
