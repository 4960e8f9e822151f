"""Selection of nodes: the lowest domains, few leaves, and answers that say why."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.core.placement.leaf_selection import select_nodes_including
from aitne.core.placement.node_selection import (
    Infeasible,
    Insufficient,
    NodeAvailability,
    Placement,
    PlacementRequest,
    select_nodes,
)
from aitne_train.topology.switch_tree import SourceLine, Switch, TopologyTree
from tests.support.random_trees import random_tree, regular_tree

FREE = NodeAvailability(8, 8)
BUSY = NodeAvailability(8, 0)


def test_job_is_placed_on_the_leaf_that_it_fills_best() -> None:
    tree = regular_tree(4, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, FREE)
    for name in ("n02", "n06"):  # leaf2 keeps two free nodes
        nodes[name] = BUSY
    placement = select_nodes(tree, nodes, PlacementRequest(2, 8))
    assert isinstance(placement, Placement)
    assert placement.order.order == ("n10", "n14")
    assert placement.reason == "all nodes are on leaf2"
    assert [each.domain for each in placement.alternatives] == ["leaf0", "leaf1", "leaf3"]


def test_large_job_takes_the_fewest_leaves_of_one_pod() -> None:
    tree = regular_tree(8, 4, 4)
    placement = select_nodes(tree, dict.fromkeys(tree.leaf_of, FREE), PlacementRequest(12))
    assert isinstance(placement, Placement)
    assert placement.candidate.domain == "pod0"
    assert len(placement.candidate.leaves) == 3
    assert placement.order.chosen.crossings == 3
    assert placement.reason == "3 leaves below pod0 hold the job"


def test_partly_free_nodes_are_used_before_free_ones() -> None:
    tree = regular_tree(2, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, FREE) | {"n4": NodeAvailability(8, 2)}
    placement = select_nodes(tree, nodes, PlacementRequest(1, 2))
    assert isinstance(placement, Placement)
    assert placement.order.order == ("n4",)


def test_short_wait_for_one_leaf_is_better_than_many_uplinks() -> None:
    tree = regular_tree(4, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, BUSY)
    for name in ("n00", "n01", "n02", "n03", "n04"):
        nodes[name] = FREE
    nodes["n08"] = nodes["n12"] = NodeAvailability(8, 0, wait_s=5.0)
    soon = select_nodes(tree, nodes, PlacementRequest(4, 8))
    assert isinstance(soon, Placement)
    assert soon.order.order == ("n00", "n04", "n08", "n12")
    assert soon.candidate.wait_s == 5.0
    nodes["n08"] = nodes["n12"] = NodeAvailability(8, 0, wait_s=36_000.0)
    now = select_nodes(tree, nodes, PlacementRequest(4, 8))
    assert isinstance(now, Placement)
    assert now.candidate.wait_s == 0.0


def test_missing_nodes_and_limits_are_named() -> None:
    tree = regular_tree(2, 4, 2)
    nodes = dict.fromkeys(tree.leaf_of, FREE) | {"n0": BUSY}
    missing = select_nodes(tree, nodes, PlacementRequest(8, 4))
    assert isinstance(missing, Insufficient)
    assert (missing.missing, missing.alternatives) == (1, ("7 nodes",))
    together = select_nodes(tree, nodes, PlacementRequest(4, 4, max_leaves=1))
    assert isinstance(together, Placement)
    nodes["n1"] = BUSY
    together = select_nodes(tree, nodes, PlacementRequest(4, 4, max_leaves=1))
    assert isinstance(together, Insufficient)
    assert together.alternatives == ("3 nodes", "more leaves")
    for request, limit in (
        (PlacementRequest(9), "nodes"),
        (PlacementRequest(1, 16), "gpus_per_node"),
        (PlacementRequest(5, max_leaves=1), "max_leaves"),
    ):
        refused = select_nodes(tree, nodes, request)
        assert isinstance(refused, Infeasible)
        assert refused.limit == limit


def two_fabrics() -> TopologyTree:
    """Return the tree of eight nodes on two leaves of one fabric, and six nodes on another."""
    line = SourceLine("two", 1)
    leaves = [
        Switch(f"ib{leaf}", line, nodes=tuple(f"g{leaf}{n}" for n in range(4))) for leaf in (1, 2)
    ]
    core = Switch("core", line, switches=("ib1", "ib2"))
    return TopologyTree(
        [*leaves, core, Switch("eth", line, nodes=tuple(f"c{n}" for n in range(6)))]
    )


def test_nodes_of_two_fabrics_are_not_combined() -> None:
    tree = two_fabrics()
    nodes = dict.fromkeys(tree.leaf_of, FREE)
    found = select_nodes(tree, nodes, PlacementRequest(8))
    assert isinstance(found, Placement)
    assert dict(found.candidate.leaves) == {"ib1": 4, "ib2": 4}
    for name in ("g10", "g20", "g21"):
        nodes[name] = NodeAvailability(8, 0, wait_s=None)
    found = select_nodes(tree, nodes, PlacementRequest(6))
    assert isinstance(found, Placement)
    assert found.candidate.leaves == (("eth", 6),)
    missing = select_nodes(tree, nodes, PlacementRequest(7))  # eleven nodes are free
    assert isinstance(missing, Insufficient)
    assert (missing.missing, missing.alternatives) == (1, ("6 nodes",))
    assert missing.reason.endswith("and 6 are free on one fabric")
    later = select_nodes(
        tree, {**nodes, "g10": NodeAvailability(8, 0, wait_s=9.0)}, PlacementRequest(6)
    )
    assert isinstance(later, Placement)
    assert later.candidate.leaves == (("eth", 6),)


def test_job_larger_than_each_fabric_spans_them_and_says_so() -> None:
    tree = two_fabrics()
    nodes = dict.fromkeys(tree.leaf_of, FREE)
    found = select_nodes(tree, nodes, PlacementRequest(9))
    assert isinstance(found, Placement)
    assert len(found.order.order) == 9
    assert found.reason == (
        "no fabric has 9 nodes for the job, which would span core, eth; Slurm refuses that "
        "(Requested node configuration is not available)"
    )
    assert found.order.fabrics == ("core", "eth")
    refused = select_nodes(tree, nodes, PlacementRequest(15))
    assert isinstance(refused, Infeasible)
    nodes["c0"] = BUSY
    assert isinstance(select_nodes(tree, nodes, PlacementRequest(14, 8)), Insufficient)
    nodes["outside"] = FREE
    together = select_nodes(tree, nodes, PlacementRequest(14, 8))
    assert isinstance(together, Placement)
    assert "span core, eth, nodes that the topology lacks" in together.reason


def test_named_nodes_keep_a_job_on_their_fabric() -> None:
    tree = two_fabrics()
    nodes = dict.fromkeys(tree.leaf_of, FREE)
    found = select_nodes_including(tree, nodes, PlacementRequest(3), ["c5"])
    assert isinstance(found, Placement)
    assert set(found.order.order) == {"c0", "c1", "c5"}
    for name in ("c1", "c2", "c3", "c4"):
        nodes[name] = NodeAvailability(8, 0, wait_s=None)
    missing = select_nodes_including(tree, nodes, PlacementRequest(3), ["c5"])
    assert isinstance(missing, Insufficient)
    assert missing.reason == "3 nodes are requested, and 2 are free on one fabric"
    larger = select_nodes_including(
        tree, dict.fromkeys(tree.leaf_of, FREE), PlacementRequest(7), ["c5"]
    )
    assert isinstance(larger, Placement)
    assert "which would span" in larger.reason
    assert len([name for name in larger.order.order if name.startswith("c")]) == 6


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 12), gpus=st.integers(0, 2))
def test_job_spans_fabrics_only_if_none_has_enough_nodes(seed: int, count: int, gpus: int) -> None:
    draw = Random(seed)
    trees = [random_tree(draw, draw.randint(1, 8)) for _ in range(2)]
    switches = [
        Switch(
            f"{number}{switch.name}",
            switch.source,
            tuple(f"{number}{name}" for name in switch.switches),
            tuple(f"{number}{name}" for name in switch.nodes),
        )
        for number, tree in enumerate(trees)
        for switch in tree.switches.values()
    ]
    both = TopologyTree(switches)
    nodes = {
        name: NodeAvailability(draw.randint(1, 2), 1, draw.choice([0.0, 0.0, 60.0, None]))
        for name in both.leaf_of
    }
    answer = select_nodes(both, nodes, PlacementRequest(count, gpus))
    largest = max(
        len([name for name, node in nodes.items() if name[0] == each and node.gpus >= gpus])
        for each in "01"
    )
    if isinstance(answer, Placement):
        assert len(set(answer.order.order)) == count
        assert (len({name[0] for name in answer.order.order}) > 1) == (largest < count)
    else:
        assert answer.reason


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
    answer = select_nodes(tree, nodes, PlacementRequest(count, gpus))
    if count <= len(now) + len(later):
        assert isinstance(answer, Placement)
        assert len(set(answer.order.order)) == count
        assert set(answer.order.order) <= {*now, *later}
        assert (answer.candidate.wait_s > 0) == (not set(answer.order.order) <= set(now))
    else:
        assert not isinstance(answer, Placement)
        assert answer.reason
