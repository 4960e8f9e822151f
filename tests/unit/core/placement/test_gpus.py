"""Subsets of GPUs: equal to a search through all of them."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.bootstrap.topologies import read_topology
from aitne.core.placement.gpus import best_gpus
from tests.support.topologies import ASSETS


def brute_force(weights: list[list[int]], free: list[int], count: int) -> tuple[int, ...]:
    """Return the best subset, from the definition alone."""

    def score(chosen: tuple[int, ...]) -> tuple[int, int, int]:
        links = [weights[one][other] for one, other in combinations(chosen, 2)]
        left = [index for index in free if index not in chosen]
        rest = sum(weights[one][other] for one, other in combinations(left, 2))
        return sum(links), min(links, default=0), rest

    return max(combinations(sorted(free), count), key=score)


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 1 << 30), size=st.integers(1, 8))
def test_subset_equals_brute_force(seed: int, size: int) -> None:
    draw = Random(seed)
    weights = [[0] * size for _ in range(size)]
    for one, other in combinations(range(size), 2):
        weights[one][other] = weights[other][one] = draw.choice([8, 12, 24, 25, 50])
    free = draw.sample(range(size), draw.randint(1, size))
    count = draw.randint(1, len(free))
    assert best_gpus(weights, free, count) == brute_force(weights, free, count)


def test_subset_on_a_published_machine_is_connected_by_nvlink() -> None:
    node = read_topology([ASSETS / "nvidia" / "v100-8gpus.txt"]).nodes["localhost"]
    weights = node.gpu_weights()
    one, other = best_gpus(weights, range(8), 2)
    assert node.links[f"GPU{one}", f"GPU{other}"] == "NV2"
    four = best_gpus(weights, range(8), 4)
    assert all(
        node.links[f"GPU{one}", f"GPU{other}"].startswith("NV")
        for one, other in combinations(four, 2)
    )


@pytest.mark.parametrize(("free", "count"), [([0], 2), ([0, 0], 1), ([0, 9], 1), ([0], 0)])
def test_impossible_subset_is_refused(free: list[int], count: int) -> None:
    with pytest.raises(ValueError, match="GPUs"):
        best_gpus([[0, 1], [1, 0]], free, count)
