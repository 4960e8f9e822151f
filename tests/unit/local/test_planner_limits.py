"""Limits of projects and members in the planner: never exceeded, and no job waits without end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.adapters.schedulers._local.limit_ledger import (
    GPU_SECONDS,
    JOBS,
    Cap,
    CapKey,
    LimitBlock,
    LimitLedger,
    cap_of,
)
from aitne.adapters.schedulers._local.node_resources import (
    Demand,
    FreeResources,
    Gpu,
    NodeCapacity,
    RunningTask,
    WaitingTask,
)
from aitne.adapters.schedulers._local.planner import forecast_start_times, make_schedule_plan
from aitne.core.models.limits import GPU_TRES, Limits
from tests.unit.local.test_planner import NODE, G, check_allocation, demand, demands, nodes_

ADA, BOB = ("vision", "ada"), ("vision", "bob")
BIG = replace(NODE, cpus=8, memory_bytes=64 * G)
VISION: CapKey = ("vision", None)


def runs(what: Demand, ends_at: float, owner: tuple[str, str] = ADA) -> RunningTask:
    grants = FreeResources((BIG,)).choose_grants(what)
    assert grants is not None
    return RunningTask(what, grants, ends_at, owner=owner)


def test_job_above_limit_of_project_waits_and_others_pass() -> None:
    caps = {VISION: Cap({"cpu": 2})}
    waiting = [
        WaitingTask(1, demand(1), owner=BOB),
        WaitingTask(2, demand(4), owner=("speech", "ada")),
        WaitingTask(3, demand(1), owner=ADA),
    ]
    result = make_schedule_plan((BIG,), [runs(demand(2), 50.0)], waiting, 0.0, caps)
    assert set(result.starts) == {2}
    assert result.limited == {
        1: LimitBlock(VISION, "cpu"),
        3: LimitBlock(VISION, "cpu"),
    }
    assert result.reasons == {}


def test_limit_of_member_applies_to_this_member_alone() -> None:
    caps = {("vision", "ada"): Cap({JOBS: 1})}
    waiting = [WaitingTask(1, demand(), owner=ADA), WaitingTask(2, demand(), owner=BOB)]
    result = make_schedule_plan((BIG,), [runs(demand(), 50.0)], waiting, 0.0, caps)
    assert set(result.starts) == {2}
    assert result.limited == {1: LimitBlock(("vision", "ada"), JOBS)}


def test_short_jobs_pass_and_long_ones_wait_behind_a_large_job_of_their_project() -> None:
    caps = {VISION: Cap({"cpu": 4})}
    waiting = [
        WaitingTask(1, demand(4), owner=ADA),
        WaitingTask(2, demand(1, limit=60.0), owner=BOB),
        WaitingTask(3, demand(1, limit=50.0), owner=BOB),
    ]
    result = make_schedule_plan((BIG,), [runs(demand(2), 50.0)], waiting, 0.0, caps)
    assert set(result.starts) == {3}
    assert result.limited[2] == LimitBlock(VISION, "cpu", behind=True)


def test_head_of_the_queue_keeps_the_room_in_its_limit() -> None:
    """The head waits for nodes; a job of its project must not take the limit meanwhile."""
    caps = {VISION: Cap({"cpu": 8})}
    other = runs(demand(4), 50.0, ("speech", "eve"))
    waiting = [
        WaitingTask(1, demand(8), owner=ADA),
        WaitingTask(2, replace(demand(1, limit=90.0)), owner=BOB),
    ]
    nodes = (BIG, replace(BIG, name="n2"))
    on_both = [other, replace(other, grants=(replace(other.grants[0], node="n2"),))]
    result = make_schedule_plan(nodes, on_both, waiting, 0.0, caps)
    assert set(result.starts) == set()
    assert result.limited == {2: LimitBlock(VISION, "cpu", behind=True)}


def test_job_above_a_lowered_limit_delays_no_other() -> None:
    caps = {VISION: Cap({"cpu": 2})}
    waiting = [WaitingTask(1, demand(4), owner=ADA), WaitingTask(2, demand(2), owner=BOB)]
    result = make_schedule_plan((BIG,), [], waiting, 0.0, caps)
    assert set(result.starts) == {2}
    assert result.limited == {1: LimitBlock(VISION, "cpu")}


def test_gpu_hours_count_running_jobs_until_their_time_limits() -> None:
    node = replace(BIG, gpus=tuple(Gpu(index) for index in range(4)))
    one = demand(1, gpus=1, limit=100.0)
    caps = {VISION: Cap({GPU_SECONDS: 300}, gpu_s_used=120.0)}
    grants = FreeResources((node,)).choose_grants(one)
    assert grants is not None
    going = [RunningTask(one, grants, 80.0, owner=ADA)]
    waiting = [
        WaitingTask(1, demand(1, gpus=1, limit=101.0), owner=ADA),
        WaitingTask(2, demand(1, gpus=1, limit=60.0), owner=ADA),
        WaitingTask(3, demand(1), owner=ADA),
    ]
    result = make_schedule_plan((node,), going, waiting, 0.0, caps)
    # 120 are used and 80 reserved. The first may fit yet, if the running job ends early.
    assert set(result.starts) == {3}
    assert result.limited[2] == LimitBlock(VISION, GPU_SECONDS, behind=True)
    spent = {VISION: replace(caps[VISION], gpu_s_used=280.0)}
    assert make_schedule_plan((node,), [], waiting, 0.0, spent).limited == {
        1: LimitBlock(VISION, GPU_SECONDS),
        2: LimitBlock(VISION, GPU_SECONDS),
    }


def test_job_for_any_gpu_gets_the_type_that_is_left() -> None:
    node = replace(BIG, gpus=(Gpu(0, "a100"), Gpu(1, "v100")))
    caps = {VISION: Cap({f"{GPU_TRES}:a100": 0})}
    waiting = [
        WaitingTask(1, demand(1, gpus=1), owner=ADA),
        WaitingTask(2, demand(1, gpus=1), owner=ADA),
        WaitingTask(3, demand(1, gpus=2), owner=ADA),
    ]
    result = make_schedule_plan((node,), [], waiting, 0.0, caps)
    assert result.starts[1][0].gpus == (1,)
    assert result.reasons[2] == "Waits for 1 GPU: 0 of 2 are free"
    assert result.limited[3] == LimitBlock(VISION, f"{GPU_TRES}:a100")


def test_no_start_time_is_estimated_for_a_job_that_a_limit_holds_back() -> None:
    caps = {VISION: Cap({"cpu": 2})}
    waiting = [WaitingTask(1, demand(1), owner=BOB), WaitingTask(2, demand(1), owner=("x", "y"))]
    assert forecast_start_times((BIG,), [runs(demand(2), 50.0)], waiting, 0.0, caps) == {2: 0.0}


@pytest.mark.timeout(30)
def test_ten_thousand_tasks_that_a_limit_holds_back_are_planned_in_one_pass() -> None:
    """A comparison of all pairs would exceed the time limit of the test many times."""
    caps = {VISION: Cap({"cpu": 2})}
    waiting = [WaitingTask(n, demand(1), owner=ADA) for n in range(10_000)]
    assert not make_schedule_plan((BIG,), [runs(demand(2), 50.0)], waiting, 0.0, caps).starts


# --- properties ----------------------------------------------------------------------------------

owners = st.sampled_from([ADA, BOB, ("speech", "ada")])
limits_ = st.builds(
    Limits,
    max_cpus=st.none() | st.integers(1, 6),
    max_memory_bytes=st.none() | st.integers(2, 16).map(lambda n: n * G),
    max_nodes=st.none() | st.integers(1, 3),
    max_jobs=st.none() | st.integers(1, 3),
    max_gpus=st.none() | st.integers(0, 3),
    max_gpus_by_type=st.dictionaries(st.just("a100"), st.integers(0, 2)),
)
caps_ = st.dictionaries(
    st.sampled_from([VISION, ("vision", "ada"), ("speech", None)]),
    limits_.map(lambda limits: cap_of(limits, 0.0)),
    max_size=3,
)


def check_limits(
    caps: dict[CapKey, Cap], nodes: tuple[NodeCapacity, ...], held: list[RunningTask]
) -> None:
    types = {(node.name, gpu.index): gpu.type for node in nodes for gpu in node.gpus}
    for (project, user), cap in caps.items():
        here = [t for t in held if t.owner[0] == project and user in (None, t.owner[1])]
        kinds = [types[g.node, i] for t in here for g in t.grants for i in g.gpus]
        used = {
            "cpu": sum(t.demand.cpus * len(t.grants) for t in here),
            "mem": sum(t.demand.memory_bytes * len(t.grants) for t in here),
            "node": sum(len(t.grants) for t in here),
            JOBS: len(here),
            GPU_TRES: len(kinds),
            f"{GPU_TRES}:a100": kinds.count("a100"),
        }
        assert all(used[name] <= most for name, most in cap.maximum.items())


def alone(job: WaitingTask, caps: dict[CapKey, Cap], nodes: tuple[NodeCapacity, ...]) -> bool:
    """Return whether the job could start on the empty cluster."""
    whole = FreeResources(nodes)
    within, block = LimitLedger(caps, nodes, (), 0.0).check_start(job, whole)
    return block is None and whole.fits(within)


@settings(max_examples=300, deadline=None)
@given(
    nodes_,
    caps_,
    st.lists(
        st.tuples(demands, owners, st.floats(0.1, 1.0), st.integers(0, 40)), min_size=1, max_size=14
    ),
)
def test_random_sequences_stay_within_limits_and_start_every_job_that_fits(
    nodes: tuple[NodeCapacity, ...],
    caps: dict[CapKey, Cap],
    jobs: list[tuple[Demand, tuple[str, str], float, int]],
) -> None:
    tasks = {
        key: (WaitingTask(key, wanted, owner=owner), share * wanted.time_limit_s, arrives)
        for key, (wanted, owner, share, arrives) in enumerate(
            sorted(jobs, key=lambda job: job[3]), start=1
        )
    }
    held: dict[int, tuple[RunningTask, float]] = {}
    ran: set[int] = set()
    now = 0.0
    while True:
        waiting = [task for task, _, at in tasks.values() if at <= now and task.key not in ran]
        result = make_schedule_plan(nodes, [job for job, _ in held.values()], waiting, now, caps)
        assert result.reasons.keys() | result.limited.keys() | result.starts.keys() == {
            task.key for task in waiting
        }
        for key, grants in result.starts.items():
            task, seconds, _ = tasks[key]
            ends = now + task.demand.time_limit_s
            held[key] = (RunningTask(task.demand, grants, ends, owner=task.owner), now + seconds)
            ran.add(key)
        running = [job for job, _ in held.values()]
        check_allocation(nodes, running)
        check_limits(caps, nodes, running)
        times = [end for _, end in held.values()] + [at for _, _, at in tasks.values() if at > now]
        if not times:
            break
        now = min(times)
        held = {key: (job, end) for key, (job, end) in held.items() if end > now}
    assert ran == {key for key, (task, _, _) in tasks.items() if alone(task, caps, nodes)}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30)), min_size=5, max_size=30))
def test_a_stream_of_small_jobs_does_not_delay_a_large_one_of_the_project(
    stream: list[tuple[int, int]],
) -> None:
    """The large job starts once the jobs that ran before it have ended, whatever follows it."""
    caps = {VISION: Cap({"cpu": 4})}
    large = WaitingTask(1, demand(4), owner=ADA)
    first = runs(demand(2, limit=20.0), 20.0, BOB)
    held: list[RunningTask] = [first]
    small = [
        WaitingTask(key, demand(cpus, limit=float(seconds)), owner=BOB)
        for key, (cpus, seconds) in enumerate(stream, start=2)
    ]
    for now in range(21):
        held = [task for task in held if task.ends_at > now]
        waiting = [large, *small[: now + 1]]
        result = make_schedule_plan((BIG,), held, waiting, float(now), caps)
        for task in list(small):
            if grants := result.starts.get(task.key):
                ends = now + task.demand.time_limit_s
                held.append(RunningTask(task.demand, grants, ends, owner=task.owner))
                small.remove(task)
        if large.key in result.starts:
            break
    assert now <= 20
    assert large.key in result.starts
