"""Which pairs of ranks to measure when, and which of what was measured is slow. Logic only."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]

SLOW_SHARE = 0.7
"""A link is slow below this share of the median of its kind."""
MOST_RANKS = 32
"""Of larger worlds only one rank of each node is measured with those of other nodes."""
_COMPARABLE = 3
"""So many links of a kind it takes to say that one is slower than usual."""


@dataclass(frozen=True)
class Link:
    """Two ranks, and how fast they exchange."""

    ranks: Pair
    bytes_per_s: float
    """Of an all-reduce between the two: each byte travels both ways."""
    latency_s: float
    """Of the smallest one."""


def rounds(members: Sequence[int]) -> list[list[Pair]]:
    """Every pair once, in as few rounds as can be, nobody twice in a round.

    The circle method of round-robin tournaments: one stands still, the others move on by one place.
    """
    circle: list[int | None] = list(members)
    if len(circle) < 2:
        return []
    if len(circle) % 2:
        circle.append(None)
    half = len(circle) // 2
    found = []
    for _ in range(len(circle) - 1):
        opposite = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append(
            [(min(a, b), max(a, b)) for a, b in opposite if a is not None and b is not None]
        )
        circle.insert(1, circle.pop())
    return found


def schedule(nodes: Sequence[int]) -> list[list[Pair]]:
    """Rounds for ranks on these nodes: every pair; of a large world every pair of nodes, and on each node
    every rank with the next."""
    if len(nodes) <= MOST_RANKS:
        return rounds(range(len(nodes)))
    first = {node: rank for rank, node in reversed(list(enumerate(nodes)))}
    found = rounds(sorted(first.values()))
    neighbours = [(a, a + 1) for a in range(len(nodes) - 1) if nodes[a] == nodes[a + 1]]
    found.append([pair for pair in neighbours if pair[0] % 2 == 0])
    found.append([pair for pair in neighbours if pair[0] % 2])
    return [each for each in found if each]


def within(pair: Pair, nodes: Sequence[int]) -> bool:
    """Whether both ranks are on one node: such links are another kind than those between nodes."""
    return nodes[pair[0]] == nodes[pair[1]]


def medians(links: Iterable[Link], nodes: Sequence[int]) -> dict[bool, float]:
    """The median bandwidth of links within a node (True) and between nodes (False), where there are any."""
    kinds: dict[bool, list[float]] = {}
    for link in links:
        kinds.setdefault(within(link.ranks, nodes), []).append(link.bytes_per_s)
    return {kind: statistics.median(values) for kind, values in kinds.items()}


def slow(links: Sequence[Link], nodes: Sequence[int]) -> list[Link]:
    """Links with less than ``SLOW_SHARE`` of the median of their kind, the slowest first."""
    middle = medians(links, nodes)
    counts = {kind: sum(within(each.ranks, nodes) is kind for each in links) for kind in middle}
    found = [
        link
        for link in links
        if counts[within(link.ranks, nodes)] >= _COMPARABLE
        and link.bytes_per_s < SLOW_SHARE * middle[within(link.ranks, nodes)]
    ]
    return sorted(found, key=lambda link: link.bytes_per_s)
