"""Tests of the measurement of links between ranks, and of the search for slow ones."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.slow_link_detection import (
    MOST_RANKS,
    RankLink,
    compute_medians,
    find_slow_links,
    pair_in_rounds,
    schedule_pairs,
)


@given(st.integers(0, 40))
def test_every_pair_meets_once_and_nobody_is_in_two_at_a_time(size: int) -> None:
    found = pair_in_rounds(range(size))
    assert sorted(pair for each in found for pair in each) == list(combinations(range(size), 2))
    for each in found:
        busy = [rank for pair in each for rank in pair]
        assert len(busy) == len(set(busy))
    assert len(found) <= size, "as few rounds as can be"


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12).filter(lambda c: sum(c) > MOST_RANKS))
def test_a_large_world_is_measured_by_nodes_and_neighbours(counts: list[int]) -> None:
    nodes = [node for node, count in enumerate(counts) for _ in range(count)]
    found = schedule_pairs(nodes)
    for each in found:
        busy = [rank for pair in each for rank in pair]
        assert len(busy) == len(set(busy))
    pairs = [pair for each in found for pair in each]
    between = {(nodes[a], nodes[b]) for a, b in pairs if nodes[a] != nodes[b]}
    assert between == set(combinations(range(len(counts)), 2))
    inside = {pair for pair in pairs if nodes[pair[0]] == nodes[pair[1]]}
    assert inside == {(a, a + 1) for a in range(len(nodes) - 1) if nodes[a] == nodes[a + 1]}


def links(**speeds: float) -> list[RankLink]:
    """Return links from ``l01=5``: ranks 0 and 1 with 5 bytes/s."""
    return [RankLink((int(name[1]), int(name[2])), speed, 1e-5) for name, speed in speeds.items()]


def test_a_link_below_seventy_percent_of_the_median_is_slow() -> None:
    found = find_slow_links(links(l01=100, l02=110, l03=71, l12=90, l13=69, l23=20), [0] * 4)
    assert [link.ranks for link in found] == [(2, 3)], "the median is 80.5, 70 % of that 56.4"
    assert find_slow_links(links(l01=100, l02=100, l12=70), [0] * 3) == []
    assert [each.ranks for each in find_slow_links(links(l01=100, l02=100, l12=69), [0] * 3)] == [
        (1, 2)
    ]


def test_links_are_compared_with_their_own_kind() -> None:
    nodes = [0, 0, 0, 1, 1, 1]
    inside = {"l01": 1000, "l02": 1000, "l12": 1000, "l34": 1000, "l35": 1000, "l45": 500}
    between = {"l03": 10, "l04": 10, "l05": 10, "l13": 10, "l14": 10, "l15": 6}
    found = find_slow_links(links(**inside, **between), nodes)
    assert [link.ranks for link in found] == [(1, 5), (4, 5)]
    assert compute_medians(links(**inside, **between), nodes) == {True: 1000, False: 10}


@pytest.mark.parametrize("speeds", [{}, {"l01": 1.0}, {"l01": 1.0, "l02": 100.0}])
def test_too_few_links_say_nothing_about_each_other(speeds: dict[str, float]) -> None:
    assert find_slow_links(links(**speeds), [0] * 3) == []
