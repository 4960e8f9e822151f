"""Schedule of the pairs of ranks to measure, and selection of slow links. Logic only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]

SLOW_SHARE = 0.7
"""Share of the median of its kind below which a link is slow."""
MOST_RANKS = 32
"""World size above which only one rank of each node is measured with those of other nodes."""
_COMPARABLE = 3
"""Minimum number of links of a kind for a comparison."""


@dataclass(frozen=True)
class RankLink:
    """Connection between two ranks with its measured bandwidth and latency."""

    ranks: Pair
    bytes_per_s: float
    """Bytes per second of an allreduce between the two: each byte is sent in both directions."""
    latency_s: float
    """Seconds of the smallest allreduce."""


def rounds(members: Sequence[int]) -> list[list[Pair]]:
    """Return every pair of ranks once, divided into the fewest rounds in which each rank has at
    most one partner.

    The circle method of round-robin tournaments: one rank stays fixed, the others rotate by one
    place.
    """
    circle: list[int | None] = list(members)
    if len(circle) < 2:
        return []
    if len(circle) % 2:
        circle.append(None)
    half = len(circle) // 2
    pairings = []
    for _ in range(len(circle) - 1):
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        pairings.append(
            [(min(a, b), max(a, b)) for a, b in opposite if a is not None and b is not None]
        )
        circle.insert(1, circle.pop())
    return pairings


def schedule(nodes: Sequence[int]) -> list[list[Pair]]:
    """Return the rounds of pairs to measure; ``nodes`` has the number of each rank's node.

    All pairs of ranks; in a large world one for every pair of nodes, and on each node every rank
    with the next.
    """
    if len(nodes) <= MOST_RANKS:
        return rounds(range(len(nodes)))
    first = {node: rank for rank, node in reversed(list(enumerate(nodes)))}
    pairings = rounds(sorted(first.values()))
    neighbours = [(a, a + 1) for a in range(len(nodes) - 1) if nodes[a] == nodes[a + 1]]
    pairings.append([pair for pair in neighbours if pair[0] % 2 == 0])
    pairings.append([pair for pair in neighbours if pair[0] % 2])
    return [pairs for pairs in pairings if pairs]


def within(pair: Pair, nodes: Sequence[int]) -> bool:
    """Return whether both ranks are on one node; links between nodes are of another kind."""
    return nodes[pair[0]] == nodes[pair[1]]


def medians(links: Iterable[RankLink], nodes: Sequence[int]) -> dict[bool, float]:
    """Return the median bandwidths within a node (True) and between nodes (False), if any."""
    kinds: dict[bool, list[float]] = {}
    for link in links:
        kinds.setdefault(within(link.ranks, nodes), []).append(link.bytes_per_s)
    return {kind: statistics.median(values) for kind, values in kinds.items()}


def slow(links: Sequence[RankLink], nodes: Sequence[int]) -> list[RankLink]:
    """Return links with less than ``SLOW_SHARE`` of the median of their kind, the slowest first."""
    middle = medians(links, nodes)
    counts = {kind: sum(within(link.ranks, nodes) is kind for link in links) for kind in middle}
    slow_links = [
        link
        for link in links
        if counts[within(link.ranks, nodes)] >= _COMPARABLE
        and link.bytes_per_s < SLOW_SHARE * middle[within(link.ranks, nodes)]
    ]
    return sorted(slow_links, key=lambda link: link.bytes_per_s)
