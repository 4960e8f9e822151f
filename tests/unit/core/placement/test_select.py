"""Selection of nodes: the lowest domains, few leaves, and answers that say why."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.core.placement.select import (
    Infeasible,
    Insufficient,
    NodeAvailability,
    Placement,
    PlacementRequest,
    select,
)
from tests.support.random_trees import random_tree, regular_tree

FREE = NodeAvailability(8, 8)
BUSY = NodeAvailability(8, 0)


def test_job_is_placed_on_the_leaf_that_it_fills_best() -> None:
    tree = regular_tree(4, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, FREE)
    for name in ("n02", "n06"):  # leaf2 keeps two free nodes
        nodes[name] = BUSY
    placement = select(tree, nodes, PlacementRequest(2, 8))
    assert isinstance(placement, Placement)
    assert placement.order.order == ("n10", "n14")
    assert placement.reason == "all nodes are on leaf2"
    assert [each.domain for each in placement.alternatives] == ["leaf0", "leaf1", "leaf3"]


def test_large_job_takes_the_fewest_leaves_of_one_pod() -> None:
    tree = regular_tree(8, 4, 4)
    placement = select(tree, dict.fromkeys(tree.leaf_of, FREE), PlacementRequest(12))
    assert isinstance(placement, Placement)
    assert placement.candidate.domain == "pod0"
    assert len(placement.candidate.leaves) == 3
    assert placement.order.chosen.crossings == 3
    assert placement.reason == "3 leaves below pod0 hold the job"


def test_partly_free_nodes_are_used_before_free_ones() -> None:
    tree = regular_tree(2, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, FREE) | {"n4": NodeAvailability(8, 2)}
    placement = select(tree, nodes, PlacementRequest(1, 2))
    assert isinstance(placement, Placement)
    assert placement.order.order == ("n4",)


def test_short_wait_for_one_leaf_is_better_than_many_uplinks() -> None:
    tree = regular_tree(4, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, BUSY)
    for name in ("n00", "n01", "n02", "n03", "n04"):
        nodes[name] = FREE
    nodes["n08"] = nodes["n12"] = NodeAvailability(8, 0, wait_s=5.0)
    soon = select(tree, nodes, PlacementRequest(4, 8))
    assert isinstance(soon, Placement)
    assert soon.order.order == ("n00", "n04", "n08", "n12")
    assert soon.candidate.wait_s == 5.0
    nodes["n08"] = nodes["n12"] = NodeAvailability(8, 0, wait_s=36_000.0)
    now = select(tree, nodes, PlacementRequest(4, 8))
    assert isinstance(now, Placement)
    assert now.candidate.wait_s == 0.0


def test_missing_nodes_and_limits_are_named() -> None:
    tree = regular_tree(2, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, FREE) | {"n0": BUSY}
    missing = select(tree, nodes, PlacementRequest(8, 4))
    assert isinstance(missing, Insufficient)
    assert (missing.missing, missing.alternatives) == (1, ("7 nodes",))
    together = select(tree, nodes, PlacementRequest(4, 4, max_leaves=1))
    assert isinstance(together, Placement)
    nodes["n1"] = BUSY
    together = select(tree, nodes, PlacementRequest(4, 4, max_leaves=1))
    assert isinstance(together, Insufficient)
    assert together.alternatives == ("3 nodes", "more leaves")
    for request, limit in (
        (PlacementRequest(9), "nodes"),
        (PlacementRequest(1, 16), "gpus_per_node"),
        (PlacementRequest(5, max_leaves=1), "max_leaves"),
    ):
        refused = select(tree, nodes, request)
        assert isinstance(refused, Infeasible)
        assert refused.limit == limit


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 14), gpus=st.integers(0, 3))
def test_every_answer_is_valid(seed: int, count: int, gpus: int) -> None:
    draw = Random(seed)
    tree = random_tree(draw, 12)
    nodes = {
        name: NodeAvailability(2, draw.randint(0, 2), draw.choice([0.0, 0.0, 0.0, 60.0, None]))
        for name in [*tree.leaf_of, "outside"]
    }
    now = [name for name, node in nodes.items() if node.wait_s == 0 and node.free_gpus >= gpus]
    later = [name for name, node in nodes.items() if node.wait_s and node.gpus >= gpus]
    answer = select(tree, nodes, PlacementRequest(count, gpus))
    if count <= len(now) + len(later):
        assert isinstance(answer, Placement)
        assert len(set(answer.order.order)) == count
        assert set(answer.order.order) <= {*now, *later}
        assert (answer.candidate.wait_s > 0) == (not set(answer.order.order) <= set(now))
    else:
        assert not isinstance(answer, Placement)
        assert answer.reason
