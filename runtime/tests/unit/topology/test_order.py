"""Orders of ranks: the best one for a ring, never worse than the given one, and meshes."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne_train.topology.errors import TopologyError
from aitne_train.topology.rank_order import compute_ring_cost, order_ranks
from aitne_train.topology.uplink_load import Cost
from tests.support.random_trees import random_tree, regular_tree


def test_order_of_interleaved_nodes_follows_the_leaves() -> None:
    tree = regular_tree(4, 6, 4)
    order = order_ranks(tree, sorted(tree.leaf_of))
    assert order.given == Cost(busiest_uplink=6, crossings=24)
    assert order.chosen == Cost(busiest_uplink=1, crossings=4)
    assert order.order[:7] == ("n00", "n04", "n08", "n12", "n16", "n20", "n01")
    assert order.describe() == "rank order: 24 -> 4 crossings, busiest uplink 6 -> 1"


def test_best_given_order_is_kept_and_said_to_be_best() -> None:
    tree = regular_tree(4, 6, 4)
    best = order_ranks(tree, sorted(tree.leaf_of)).order
    turned = [*best[3:], *best[:3]]
    order = order_ranks(tree, turned)
    assert order.order == tuple(turned)
    assert not order.is_changed
    assert "the given order is already the best one" in order.describe()


def test_first_node_stays_the_first() -> None:
    tree = regular_tree(8, 4, 4)
    names = sorted(tree.leaf_of)
    Random(3).shuffle(names)
    assert order_ranks(tree, names).order[0] == names[0]


def test_unknown_nodes_come_as_one_group_and_are_named() -> None:
    tree = regular_tree(2, 4, 2)
    order = order_ranks(tree, ["x1", "n0", "x2", "n1", "x3", "n2"])
    assert order.unknown == ("x1", "x2", "x3")
    assert order.order == ("x1", "x2", "x3", "n0", "n2", "n1")
    assert order.describe().endswith("; the topology does not contain x[1-3]")


@pytest.mark.parametrize("count", [0, 1])
def test_order_of_one_node_costs_nothing(count: int) -> None:
    order = order_ranks(regular_tree(2, 2, 2), ["n0"][:count])
    assert order.chosen == Cost(0, 0)


def test_node_named_twice_is_refused() -> None:
    with pytest.raises(TopologyError, match="n0 is named twice"):
        order_ranks(regular_tree(2, 2, 2), ["n0", "n1", "n0"])


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1 << 30), nodes=st.integers(1, 6))
def test_order_of_a_ring_is_the_optimum(seed: int, nodes: int) -> None:
    draw = Random(seed)
    tree = random_tree(draw, nodes)
    names = draw.sample(sorted(tree.leaf_of), nodes)
    order = order_ranks(tree, names)
    every = [compute_ring_cost(tree, [names[0], *rest]) for rest in permutations(names[1:])]
    assert order.chosen == compute_ring_cost(tree, order.order)
    assert order.given == compute_ring_cost(tree, names)
    assert order.chosen.busiest_uplink == min(each.busiest_uplink for each in every)
    assert order.chosen.crossings == min(each.crossings for each in every)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1 << 30),
    mesh=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    ranks_per_node=st.sampled_from([1, 2]),
)
def test_order_of_a_mesh_is_a_permutation_and_never_worse(
    seed: int, mesh: list[int], ranks_per_node: int
) -> None:
    world = 1
    for size in mesh:
        world *= size
    if world % ranks_per_node:
        return
    draw = Random(seed)
    nodes = world // ranks_per_node
    tree = random_tree(draw, nodes + 3)
    names = draw.sample(sorted(tree.leaf_of), nodes)
    order = order_ranks(tree, names, mesh=mesh, ranks_per_node=ranks_per_node)
    assert sorted(order.order) == sorted(names)
    assert order.chosen <= order.given
    again = order_ranks(tree, order.order, mesh=mesh, ranks_per_node=ranks_per_node)
    assert again.given == order.chosen


def test_inner_groups_of_a_mesh_are_on_one_leaf() -> None:
    tree = regular_tree(8, 6, 4)  # six nodes on a leaf: one group of four and two that remain
    names = sorted(tree.leaf_of)
    order = order_ranks(tree, names, mesh=[4, 12])
    ring = order_ranks(tree, names)
    assert order.chosen < order.given
    groups = [order.order[start : start + 4] for start in range(0, 48, 4)]
    assert sum(len({tree.leaf_of[node] for node in group}) == 1 for group in groups) >= 8
    assert order.chosen <= order_ranks(tree, ring.order, mesh=[4, 12]).given


@pytest.mark.parametrize(
    ("mesh", "problem"),
    [
        ([4, 2], "the mesh 4 x 2 has 8 ranks, but 3 nodes with 2 ranks each have 6"),
        ([0], "has 0 ranks"),
        ([100_000, 100_000], "more than 65536 ranks"),
    ],
)
def test_mesh_of_another_size_is_refused(mesh: list[int], problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        order_ranks(regular_tree(2, 2, 2), ["n0", "n1", "n2"], mesh=mesh, ranks_per_node=2)
