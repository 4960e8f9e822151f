"""Tests of the planner: no more than the free resources, in order, no delay of the first job."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.adapters.schedulers._local.node_resources import (
    Demand,
    FreeResources,
    Gpu,
    NodeCapacity,
    RunningTask,
    WaitingTask,
)
from aitne.adapters.schedulers._local.planner import forecast_start_times, make_schedule_plan
from aitne.core.placement.leaf_selection import count_fewest_leaves, make_tree, select_nearest_nodes
from aitne_train.topology.switch_tree import TopologyTree

G = 1 << 30
NODE = NodeCapacity("n1", cpus=2, memory_bytes=4 * G)
TWO = (NODE, replace(NODE, name="n2"))


def demand(cpus: int = 1, *, nodes: int = 1, limit: float = 100.0, gpus: int = 0) -> Demand:
    return Demand(nodes, cpus, G, gpus=gpus, time_limit_s=limit)


def running(nodes: tuple[NodeCapacity, ...], what: Demand, ends_at: float) -> RunningTask:
    grants = FreeResources(nodes).choose_grants(what)
    assert grants is not None
    return RunningTask(what, grants, ends_at)


def test_a_short_job_fills_the_gap_and_a_long_one_does_not() -> None:
    now = [running((NODE,), demand(1), 50.0)]
    waiting = [
        WaitingTask(1, demand(2)),
        WaitingTask(2, demand(1, limit=60.0)),
        WaitingTask(3, demand(1, limit=50.0)),
    ]
    result = make_schedule_plan((NODE,), now, waiting, 0.0)
    assert set(result.starts) == {3}
    assert result.reasons == {
        1: "Waits for 2 CPUs: 1 of 2 is free",
        2: "Waits behind 1 job",
    }


def test_a_long_job_passes_where_the_head_loses_nothing() -> None:
    now = [running(TWO, demand(2), 50.0)]
    waiting = [WaitingTask(1, demand(1, nodes=2)), WaitingTask(2, demand(1, limit=1_000.0))]
    assert set(make_schedule_plan(TWO, now, waiting, 0.0).starts) == {2}


def test_an_array_keeps_to_its_throttle_and_holds_up_nobody() -> None:
    waiting = [WaitingTask(n, demand(), group=7, throttle=1) for n in (1, 2)] + [
        WaitingTask(3, demand())
    ]
    result = make_schedule_plan((NODE,), [], waiting, 0.0)
    assert set(result.starts) == {1, 3}
    assert result.reasons[2] == "Waits for its array: at most 1 at once"


def test_a_job_for_nodes_that_are_gone_holds_up_nobody() -> None:
    result = make_schedule_plan(
        (NODE,), [], [WaitingTask(1, demand(8)), WaitingTask(2, demand(1))], 0.0
    )
    assert set(result.starts) == {2}
    assert result.reasons[1].endswith("no node is that large any more")


def test_grants_on_nodes_that_are_gone_are_passed_over() -> None:
    old = running(TWO, demand(2, nodes=2), 10.0)
    assert set(make_schedule_plan((NODE,), [old], [WaitingTask(1, demand(1))], 0.0).starts) == set()
    assert forecast_start_times((NODE,), [old], [WaitingTask(1, demand(1))], 0.0) == {1: 10.0}


def test_jobs_keep_together_and_leave_gpus_to_who_needs_them() -> None:
    nodes = (replace(NODE, gpus=(Gpu(0), Gpu(1))), replace(NODE, name="n2"))
    free = FreeResources(nodes)
    first = free.choose_grants(demand(1))
    assert first is not None
    assert first[0].node == "n2"
    free.allocate(demand(1), first)
    second = free.choose_grants(demand(1))
    assert second == first


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (demand(2), "Waits for 2 CPUs on one node: 1 of 2 is free"),
        (
            demand(1, nodes=2),
            "Waits for 2 nodes with 1 CPU and 1 GiB each: 1 of 2 nodes have that free",
        ),
        (Demand(1, 1, 4 * G), "Waits for 4 GiB of memory on one node: 3 GiB are free"),
        (demand(1, gpus=1), "Waits for 1 GPU on one node: 0 of 0 are free"),
    ],
)
def test_reasons_name_the_numbers(wanted: Demand, reason: str) -> None:
    free = FreeResources(TWO)
    for node, cpus in (("n1", 2), ("n2", 1)):
        free.cpus[node] -= cpus
        free.memory[node] -= G
    assert free.explain_shortage(wanted) == reason


def test_the_forecast_lets_everybody_run_to_his_limit() -> None:
    now = [running((NODE,), demand(2), 50.0)]
    waiting = [
        WaitingTask(1, demand(2, limit=10)),
        WaitingTask(2, demand(1)),
        WaitingTask(3, demand(2)),
    ]
    assert forecast_start_times((NODE,), now, waiting, 0.0) == {1: 50.0, 2: 60.0, 3: 160.0}


# --- properties ----------------------------------------------------------------------------------

nodes_ = st.lists(
    st.builds(
        lambda cpus, gpus: (cpus, gpus),
        st.integers(1, 4),
        st.lists(st.sampled_from([None, "a100"]), max_size=3),
    ),
    min_size=1,
    max_size=3,
).map(
    lambda found: tuple(
        NodeCapacity(
            f"n{i}", cpus, 8 * G, tuple(Gpu(10 * i + j, kind) for j, kind in enumerate(gpus))
        )
        for i, (cpus, gpus) in enumerate(found)
    )
)
demands = st.builds(
    Demand,
    nodes=st.integers(1, 3),
    cpus=st.integers(1, 4),
    memory_bytes=st.integers(1, 8).map(lambda n: n * G),
    gpus=st.integers(0, 2),
    gpu_type=st.sampled_from([None, None, "a100"]),
    time_limit_s=st.integers(1, 50).map(float),
)


@st.composite
def queues(draw: st.DrawFn) -> tuple[tuple[NodeCapacity, ...], list[tuple[WaitingTask, float]]]:
    """Draw nodes, and jobs with their real duration, which is within the limit."""
    nodes = draw(nodes_)
    jobs = []
    for key in range(1, draw(st.integers(1, 12)) + 1):
        wanted = draw(demands)
        group = draw(st.sampled_from([0, 0, 1]))
        jobs.append(
            (
                WaitingTask(key, wanted, group, 2 if group else None),
                draw(st.floats(0.1, 1.0)) * wanted.time_limit_s,
            )
        )
    return nodes, jobs


def check_allocation(nodes: tuple[NodeCapacity, ...], held: list[RunningTask]) -> None:
    for node in nodes:
        here = [(job, grant) for job in held for grant in job.grants if grant.node == node.name]
        assert sum(job.demand.cpus for job, _ in here) <= node.cpus
        assert sum(job.demand.memory_bytes for job, _ in here) <= node.memory_bytes
        used = [index for _, grant in here for index in grant.gpus]
        assert len(used) == len(set(used))
        types = {gpu.index: gpu.type for gpu in node.gpus}
        assert set(used) <= set(types)
        for job, grant in here:
            assert len(grant.gpus) == job.demand.gpus
            if job.demand.gpu_type is not None:
                assert {types[index] for index in grant.gpus} <= {job.demand.gpu_type}


@settings(max_examples=300, deadline=None)
@given(queues())
def test_simulated_to_the_end(
    queue: tuple[tuple[NodeCapacity, ...], list[tuple[WaitingTask, float]]],
) -> None:
    """Every job that fits runs once, nothing is over-allocated, no head starts later than promised."""
    nodes, jobs = queue
    takes = {job.key: seconds for job, seconds in jobs}
    waiting = [job for job, _ in jobs]
    possible = {job.key for job in waiting if FreeResources(nodes).fits(job.demand)}
    held: dict[int, tuple[RunningTask, float]] = {}
    promised: dict[int, float] = {}
    now, ran = 0.0, set[int]()
    while True:
        result = make_schedule_plan(nodes, [job for job, _ in held.values()], waiting, now)
        for job in waiting:
            if job.key in result.starts:
                assert job.key not in ran
                ran.add(job.key)
                grants = result.starts[job.key]
                assert len({grant.node for grant in grants}) == job.demand.nodes
                run = RunningTask(job.demand, grants, now + job.demand.time_limit_s, job.group)
                held[job.key] = (run, now + takes[job.key])
                assert now <= promised.get(job.key, now) + 1e-6
        waiting = [job for job in waiting if job.key not in result.starts]
        assert set(result.reasons) == {job.key for job in waiting}
        check_allocation(nodes, [job for job, _ in held.values()])
        assert sum(job.group == 1 for job, _ in held.values()) <= 2
        head = next((job for job in waiting if job.key in possible), None)
        if head is not None and "array" in result.reasons[head.key]:
            # Its own array holds it back, no lack of room: a task behind it may have taken its place.
            promised.pop(head.key, None)
            head = None
        if head is not None:
            # Alone in the queue it would start at this time; the jobs behind it must not change that.
            start = forecast_start_times(
                nodes,
                [job for job, _ in held.values()],
                [replace(head, throttle=None)],
                now,
            )[head.key]
            promised[head.key] = min(promised.get(head.key, start), start)
        if not held:
            break
        now = min(end for _, end in held.values())
        held = {key: (job, end) for key, (job, end) in held.items() if end > now}
    assert ran == possible


def test_ten_thousand_waiting_tasks_are_looked_at_quickly() -> None:
    now = [running((NODE,), demand(2), 50.0)]
    waiting = [WaitingTask(n, demand(1)) for n in range(10_000)]
    began = time.process_time()
    make_schedule_plan((NODE,), now, waiting, 0.0)
    assert time.process_time() - began < 0.5


FOUR = tuple(replace(NODE, name=f"n{number}") for number in (1, 2, 3, 4))
PATHS = {
    **dict.fromkeys(("n1", "n3"), ("core", "a")),
    **dict.fromkeys(("n2", "n4"), ("core", "b")),
}


def interleaved() -> TopologyTree:
    tree = make_tree(PATHS)
    assert tree is not None
    return tree


def nodes_of(started: object) -> list[str]:
    assert isinstance(started, tuple)
    return [grant.node for grant in started]


def test_several_nodes_are_on_the_fewest_leaves() -> None:
    two = replace(demand(2, nodes=2), tree=interleaved())
    assert nodes_of(make_schedule_plan(FOUR, [], [WaitingTask(1, two)], 0.0).starts[1]) == [
        "n1",
        "n3",
    ]
    busy = [running(FOUR, demand(2), 50.0)]
    assert nodes_of(make_schedule_plan(FOUR, busy, [WaitingTask(1, two)], 0.0).starts[1]) == [
        "n2",
        "n4",
    ]
    named = replace(two, required=("n4",), exclude=frozenset({"n2"}))
    assert nodes_of(make_schedule_plan(FOUR, [], [WaitingTask(1, named)], 0.0).starts[1]) == [
        "n1",
        "n4",
    ]


def test_job_waits_for_its_leaves_and_nodes() -> None:
    tree = interleaved()
    busy = [
        RunningTask(
            demand(2), FreeResources(FOUR[2:]).choose_grants(demand(2, nodes=2)) or (), 50.0
        )
    ]
    apart = replace(demand(2, nodes=2), tree=tree)
    assert nodes_of(make_schedule_plan(FOUR, busy, [WaitingTask(1, apart)], 0.0).starts[1]) == [
        "n1",
        "n2",
    ]
    together = replace(apart, max_leaves=1)
    result = make_schedule_plan(FOUR, busy, [WaitingTask(1, together)], 0.0)
    assert result.reasons == {1: "Waits for 2 nodes with 2 CPUs and 1 GiB each on one leaf"}
    assert forecast_start_times(FOUR, busy, [WaitingTask(1, together)], 0.0) == {1: 50.0}
    named = replace(demand(2), required=("n3",))
    result = make_schedule_plan(FOUR, busy, [WaitingTask(1, named)], 0.0)
    assert result.reasons == {1: "Waits for 2 CPUs and 1 GiB on n3"}


def test_fewest_leaves_hold_the_job_and_its_named_nodes() -> None:
    tree = interleaved()
    assert count_fewest_leaves(tree, PATHS, 2) == 1
    assert count_fewest_leaves(tree, PATHS, 3) == 2
    assert count_fewest_leaves(tree, PATHS, 2, ["n1", "n2"]) == 2
    assert count_fewest_leaves(tree, PATHS, 5) is None
    assert count_fewest_leaves(tree, [*PATHS, "n9"], 5) == 3
    assert select_nearest_nodes(tree, ["n1", "n2", "n4"], 2, ["n2"]) == ("n2", "n4")
    assert select_nearest_nodes(tree, ["n1", "n2"], 2, ["n2"], max_leaves=1) is None
    assert make_tree({}) is None


FABRICS = {"n1": ("a",), "n2": ("a",), "n3": ("b",), "n4": ("b",)}


def test_job_waits_for_one_fabric_unless_none_is_large_enough() -> None:
    tree = make_tree(FABRICS)
    assert tree is not None
    busy = [
        RunningTask(
            demand(2), FreeResources(FOUR[1:3]).choose_grants(demand(2, nodes=2)) or (), 50.0
        )
    ]
    two = replace(demand(2, nodes=2), tree=tree)
    result = make_schedule_plan(FOUR, busy, [WaitingTask(1, two)], 0.0)
    assert not result.starts
    assert result.reasons == {1: "Waits for 2 nodes with 2 CPUs and 1 GiB each on one fabric"}
    assert forecast_start_times(FOUR, busy, [WaitingTask(1, two)], 0.0) == {1: 50.0}
    assert nodes_of(make_schedule_plan(FOUR, [], [WaitingTask(1, two)], 0.0).starts[1]) == [
        "n1",
        "n2",
    ]
    three = replace(demand(2, nodes=3), tree=tree)
    assert len(nodes_of(make_schedule_plan(FOUR, [], [WaitingTask(1, three)], 0.0).starts[1])) == 3
    assert count_fewest_leaves(tree, FABRICS, 2) == 1
    assert count_fewest_leaves(tree, FABRICS, 3) == 2
    assert count_fewest_leaves(tree, FABRICS, 2, ["n1", "n3"]) == 2
    assert count_fewest_leaves(tree, FABRICS, 5) is None
