"""Placement on large clusters: time, distance from the optimum, and savings.

Times are CPU times of this process, so that other programs do not count.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random

from tests.support.random_trees import random_tree, regular_tree

from aitne.bootstrap.topology_reader import read_topology
from aitne.core.placement.node_selection import (
    NodeAvailability,
    Placement,
    PlacementRequest,
    select_nodes,
)
from aitne_train.topology import device_mesh_order
from aitne_train.topology.hostlist import make_natural_key
from aitne_train.topology.rank_order import compute_ring_cost, order_depth_first, order_ranks
from aitne_train.topology.switch_tree import TopologyTree
from aitne_train.topology.uplink_load import Cost, Network
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import Estimate, bootstrap, median

ASSETS = Path(__file__).parents[1] / "tests" / "assets" / "topologies" / "slurm_file"
NODES, GPUS = 10_000, 8
SELECT_MS, REFINE_MS = 5.0, 100.0
_BUSY = 0.4
"""Part of the nodes that other jobs use in the random states of the table."""


def measure(*, quick: bool) -> Figure:
    """Measure placement; raise ``BenchmarkError`` if an answer is not valid."""
    states, trees = (100, 200) if quick else (1_000, 2_000)
    select_ms = _select_times(states)
    busiest, crossings, worse = _against_brute_force(trees)
    rows = [
        Row("10,000 nodes x 8 GPUs: select and order, CPU time", "ms", select_ms, SELECT_MS),
        Row(
            "refinement of 512 ranks (8 x 8 x 8), CPU time",
            "ms",
            _refine_times(3 if quick else 15),
            REFINE_MS,
        ),
        Row("one ring, busiest uplink equals brute force", "%", busiest, least=100.0),
        Row("one ring, crossings equal brute force", "%", crossings, least=99.0),
        Row("one ring, orders worse than the given one", "", worse, target=0.0),
    ]
    notes = [
        f"{states} random states of 10,000 nodes: every answer was valid.",
        "Crossings and the load of the busiest uplink are means over random states of a cluster, of which "
        "other jobs use 40 %. They are computed: Slurm's nodes are chosen by a model of topology/tree, and "
        "its ranks are ordered by host name or by switch. The best possible order crosses once for each leaf.",
        "Slurm orders nodes by switch with `TopologyParam=SwitchAsNodeRank` in slurm.conf. Observed with "
        "Slurm 24.11.5 and eight nodes on four leaves (`aitne dev cluster up --slurm trixie --nodes 8 "
        "--topology interleaved`): the tasks of `srun -N4` ran on n1, n5, n2, n6 with it, and on n1, n2, n5, n6 "
        "without it. Slurm 22.05 does not have the option.",
        "That a better order shortens a step is measured by `rank_order`.",
    ]
    for name, tree, size in (
        ("512 nodes, names cyclic over 32 leaves", _file("tree512_cyclic.conf"), 64),
        ("24 nodes, names interleaved over 4 leaves", _file("fattree_interleaved.conf"), 12),
        ("79 nodes of circe on 5 leaves, names almost contiguous", _file("circe.conf"), 24),
        ("32 nodes in 8 blocks, names contiguous", _file("blocks.conf"), 12),
    ):
        rows += _saved(name, tree, size, 20 if quick else 100)
    return Figure("placement", "Placement of nodes, GPUs and ranks", rows, notes)


def _file(name: str) -> TopologyTree:
    tree = read_topology([ASSETS / name]).tree
    if tree is None:
        raise BenchmarkError(f"{name} has no switches")
    return tree


def _ms_since(start: float) -> float:
    return (time.process_time() - start) * 1_000


def _exact(value: float, count: int) -> Estimate:
    return Estimate(value, value, value, count)


def _select_times(states: int) -> Estimate:
    draw = Random(1)
    tree = regular_tree(NODES // 32 + 1, 32, 16)
    names = sorted(tree.leaf_of)[:NODES]
    times = []
    for number in range(states):
        if number % 50 == 0:  # a new state of the whole cluster
            nodes = {
                name: NodeAvailability(GPUS, draw.choice((0, 0, 2, 4, 8, 8))) for name in names
            }
        else:
            for name in draw.sample(names, 500):
                nodes[name] = NodeAvailability(GPUS, draw.choice((0, 0, 2, 4, 8, 8)))
        request = PlacementRequest(draw.choice((1, 2, 8, 32, 64, 256)), draw.choice((2, 4, 8)))
        start = time.process_time()
        answer = select_nodes(tree, nodes, request)
        times.append(_ms_since(start))
        _check(tree, nodes, request, answer)
    return median(times)


def _check(
    tree: TopologyTree,
    nodes: dict[str, NodeAvailability],
    request: PlacementRequest,
    answer: object,
) -> None:
    fitting = [name for name, node in nodes.items() if node.free_gpus >= request.gpus_per_node]
    if isinstance(answer, Placement):
        order = answer.order.order
        valid = len(set(order)) == request.nodes and set(order) <= set(fitting)
        valid = valid and compute_ring_cost(tree, order) == answer.order.chosen
    else:
        valid = len(fitting) < request.nodes
    if not valid:
        raise BenchmarkError(f"the answer to {request} is not valid: {answer}")


def _refine_times(count: int) -> Estimate:
    tree = regular_tree(32, 24, 8)
    sizes = (8, 8, 8)
    times = []
    for number in range(count):
        nodes = Random(number).sample(sorted(tree.leaf_of), 512)
        network = Network(tree, nodes)
        pairs = device_mesh_order.count_edges(sizes, 512, 1)
        first = order_depth_first(network)
        start = time.process_time()
        groups = device_mesh_order.group_nodes(
            network, first, device_mesh_order.list_group_sizes(sizes, 1)
        )
        device_mesh_order.swap_nodes(network, groups, pairs)
        times.append(_ms_since(start))
    return median(times)


def _against_brute_force(trees: int) -> tuple[Estimate, Estimate, Estimate]:
    """Return how often the busiest uplink and the crossings are the smallest of all orders, in per
    cent, and how many orders are worse than the given one."""
    draw = Random(2)
    busiest = crossings = worse = 0
    for number in range(trees):
        # 9 nodes have 40,320 rings: most trees have fewer, so that the run takes minutes.
        nodes = 9 if number % 200 == 0 else draw.randint(2, 7)
        tree = random_tree(draw, nodes)
        names = draw.sample(sorted(tree.leaf_of), nodes)
        order = order_ranks(tree, names)
        every = [compute_ring_cost(tree, (names[0], *rest)) for rest in permutations(names[1:])]
        busiest += order.chosen.busiest_uplink == min(each.busiest_uplink for each in every)
        crossings += order.chosen.crossings == min(each.crossings for each in every)
        worse += order.chosen > order.given
    return (
        _exact(100 * busiest / trees, trees),
        _exact(100 * crossings / trees, trees),
        _exact(worse, trees),
    )


# --- what it saves -------------------------------------------------------------------------------


def _saved(name: str, tree: TopologyTree, size: int, states: int) -> list[Row]:
    """Return the mean costs of each way to order the nodes of a job, on random states of a cluster."""
    draw = Random(4)
    sums: dict[str, list[Cost]] = {}
    for _ in range(states):
        free = [node for node in tree.leaf_of if draw.random() >= _BUSY]
        if len(free) < size:
            continue
        nodes = {node: NodeAvailability() for node in free}
        answer = select_nodes(tree, nodes, PlacementRequest(size))
        if not isinstance(answer, Placement):
            raise BenchmarkError(f"{size} of {len(free)} free nodes cannot be placed")
        theirs = _of_slurm(tree, free, size)
        by_name = sorted(theirs, key=make_natural_key)
        by_switch = sorted(
            theirs, key=lambda node: (make_natural_key(tree.leaf_of[node]), make_natural_key(node))
        )
        used = len({tree.leaf_of[node] for node in theirs})
        sums.setdefault("Slurm's nodes by host name", []).append(compute_ring_cost(tree, by_name))
        sums.setdefault("Slurm's nodes by switch (SwitchAsNodeRank)", []).append(
            compute_ring_cost(tree, by_switch)
        )
        sums.setdefault("Slurm's nodes, our order", []).append(order_ranks(tree, by_name).chosen)
        best = Cost(1, used) if used > 1 else Cost(0, 0)
        sums.setdefault("Slurm's nodes, best possible", []).append(best)
        sums.setdefault("our nodes, our order", []).append(answer.order.chosen)
    rows = []
    for way, costs in sums.items():
        ours = way.endswith("our order")
        what = f"{name}, a job of {size}: {way}"
        rows += [
            Row(f"{what}, crossings", "", _mean([each.crossings for each in costs])),
            Row(
                f"{what}, busiest uplink",
                "",
                _mean([each.busiest_uplink for each in costs]),
                1.0 if ours else None,
            ),
        ]
    return rows


def _mean(values: Sequence[int]) -> Estimate:
    return bootstrap(values, lambda chosen: sum(chosen) / len(chosen))


def _of_slurm(tree: TopologyTree, free: Sequence[str], size: int) -> list[str]:
    """Return the nodes that Slurm's topology/tree takes: the lowest switch that holds the job, and
    below it the leaves with the best fit (https://slurm.schedmd.com/topology.html)."""
    below: dict[str, list[str]] = {}
    for node in free:
        for switch in tree.find_path(tree.leaf_of[node]):
            below.setdefault(switch, []).append(node)
    fits = [switch for switch, nodes in below.items() if len(nodes) >= size]
    domain = min(fits, key=lambda each: (-len(tree.find_path(each)), len(below[each])))
    leaves: dict[str, list[str]] = {}
    for node in below[domain]:
        leaves.setdefault(tree.leaf_of[node], []).append(node)
    taken: list[str] = []
    while len(taken) < size:
        rest = size - len(taken)
        holding = [leaf for leaf, nodes in leaves.items() if len(nodes) >= rest]
        if holding:
            leaf = min(holding, key=lambda each: len(leaves[each]))
        else:
            leaf = max(leaves, key=lambda each: len(leaves[each]))
        taken += sorted(leaves.pop(leaf), key=make_natural_key)[:rest]
    return taken
