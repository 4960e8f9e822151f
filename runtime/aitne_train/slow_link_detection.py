"""Pure functions that schedule which pairs of ranks to measure and select slow links."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]

SLOW_SHARE = 0.7
"""Fraction of the median bandwidth below which a link is slow, compared with links of its kind
(within a node or between nodes)."""
MOST_RANKS = 32
"""Maximum number of ranks for which all pairs are measured; with more, only one pair of ranks for
each two nodes."""
_COMPARABLE = 3
"""Minimum number of links of a kind (within a node or between nodes) needed to compare them."""


@dataclass(frozen=True)
class RankLink:
    """Link between two ranks, with its measured bandwidth and latency."""

    ranks: Pair
    bytes_per_s: float
    """Bandwidth as the bytes per second of an allreduce between the two ranks, which sends each
    byte in both directions."""
    latency_s: float
    """Duration of a minimal allreduce between the two ranks, in seconds."""


def pair_in_rounds(members: Sequence[int]) -> list[list[Pair]]:
    """Divide all pairs of ranks, each contained once, into the fewest rounds in which each rank has
    at most one partner.

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


def schedule_pairs(nodes: Sequence[int]) -> list[list[Pair]]:
    """Return the pairs of ranks to measure, divided into rounds that run one after another.
    ``nodes`` contains the number of each rank's node.

    With up to ``MOST_RANKS`` ranks these are all pairs; with more, one pair for each two nodes, and
    on each node every rank with the next.
    """
    if len(nodes) <= MOST_RANKS:
        return pair_in_rounds(range(len(nodes)))
    first = {node: rank for rank, node in reversed(list(enumerate(nodes)))}
    pairings = pair_in_rounds(sorted(first.values()))
    neighbours = [(a, a + 1) for a in range(len(nodes) - 1) if nodes[a] == nodes[a + 1]]
    pairings.append([pair for pair in neighbours if pair[0] % 2 == 0])
    pairings.append([pair for pair in neighbours if pair[0] % 2])
    return [pairs for pairs in pairings if pairs]


def is_within_node(pair: Pair, nodes: Sequence[int]) -> bool:
    """Return whether both ranks of the pair are on the same node."""
    return nodes[pair[0]] == nodes[pair[1]]


def compute_medians(links: Iterable[RankLink], nodes: Sequence[int]) -> dict[bool, float]:
    """Return the median bandwidth of the links within a node (key True) and between nodes (key
    False); a key is missing if there are no such links.
    """
    kinds: dict[bool, list[float]] = {}
    for link in links:
        kinds.setdefault(is_within_node(link.ranks, nodes), []).append(link.bytes_per_s)
    return {kind: statistics.median(values) for kind, values in kinds.items()}


def find_slow_links(links: Sequence[RankLink], nodes: Sequence[int]) -> list[RankLink]:
    """Return the links whose bandwidth is less than ``SLOW_SHARE`` of the median of their kind,
    slowest first.
    """
    middle = compute_medians(links, nodes)
    counts = {
        kind: sum(is_within_node(link.ranks, nodes) is kind for link in links) for kind in middle
    }
    slow_links = [
        link
        for link in links
        if counts[is_within_node(link.ranks, nodes)] >= _COMPARABLE
        and link.bytes_per_s < SLOW_SHARE * middle[is_within_node(link.ranks, nodes)]
    ]
    return sorted(slow_links, key=lambda link: link.bytes_per_s)
