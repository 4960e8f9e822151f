"""Collectives between ranks that request them in different orders."""

from __future__ import annotations

import pytest
from runtime.tests.ranks import engine_work as work

from tests.support.ranks import Pool


@pytest.fixture(params=["shm", "torch_pg"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"AITNE_TRANSPORT": request.param}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_kind_of_collective(pool: Pool, environ: dict[str, str], size: int) -> None:
    ranks = range(size)
    for rank, found in enumerate(pool.run(work.collectives, size, environ=environ)):
        total = sum(ranks)
        assert found == {
            "world": (rank, size, (0,) * size),
            "average": [total / size + each for each in range(3)],
            "max": [size - 1, 0],
            "scaled": [sum(2 * (each + 1) for each in ranks) // 2],
            "bfloat16": [float(total + size)] * 2,
            "group": [[float(total)] * 2, total, []],
            "gathered": [[[each] * 2 for each in ranks for _ in range(each)], list(ranks)],
            "broadcast": (True, [size - 1] * 3),
            "alltoall": [
                [each for each in ranks for _ in range(rank + 1)],
                [rank + 1] * size,
            ],
            "scattered": (size + 1) // size + (rank < (size + 1) % size),
        }


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_ask_in_any_order(pool: Pool, environ: dict[str, str], size: int) -> None:
    expected = [float(size * at * (at + 1)) for at in reversed(range(40))]
    assert pool.run(work.any_order, size, environ=environ) == [expected] * size


def test_requests_are_done_while_nobody_waits(pool: Pool, environ: dict[str, str]) -> None:
    assert pool.run(work.nobody_waits, 2, environ=environ) == [True, True]


def test_threads_of_a_rank_wait_for_their_own(pool: Pool, environ: dict[str, str]) -> None:
    expected = [2.0 * sum(at + step for step in range(25)) for at in range(4)]
    assert pool.run(work.many_threads, 2, environ=environ) == [expected] * 2


def test_init_may_follow_shutdown(pool: Pool, environ: dict[str, str]) -> None:
    assert pool.run(work.again_and_again, 2, environ=environ) == [[0.0, 2.0, 4.0]] * 2


def test_nodes_are_told_apart(pool: Pool) -> None:
    environ = {"AITNE_TRANSPORT": "torch_pg"}
    found = pool.run(work.collectives, 3, nodes=(0, 0, 1), environ=environ)
    assert {each["world"][2] for each in found} == {(0, 0, 1)}


def test_ranks_with_less_data_join(pool: Pool, environ: dict[str, str]) -> None:
    found = pool.run(work.uneven, 3, environ=environ)
    assert [each["sums"] for each in found] == [[], [2.0], [2.0, 1.0]]
    assert {each["last"] for each in found} == {2}
    assert {each["after"] for each in found} == {3.0}


def test_joined_ranks_take_part_in_steps_of_a_channel(pool: Pool, environ: dict[str, str]) -> None:
    found = pool.run(work.channel_and_join, 3, environ=environ)
    assert found == [([3.0, 2.0, 1.0], 2)] * 3


def test_a_rank_that_joined_is_through_with_others_steps_when_join_is_over(pool: Pool) -> None:
    assert pool.run(work.join_settles, 2, environ={"AITNE_TRANSPORT": "shm"}) == [True, True]


def test_process_sets(pool: Pool, environ: dict[str, str]) -> None:
    first, second, third = pool.run(work.sets, 3, environ=environ)
    assert (first["results"], second["results"], third["results"]) == (
        {1: 3.0},
        {1: 3.0, 2: 5.0},
        {2: 5.0},
    )
    assert (first["ranks"], second["ranks"], third["ranks"]) == ([0], [1, 0], [1])
    assert second["gathered"] == [[0, 1], [1, 2]]
    assert first["sizes"] == [2, 2]
    assert first["outside"] == "ValueError: allreduce: rank 0 is not part of process set 2."
    assert third["outside"] == "ValueError: allreduce: rank 2 is not part of process set 1."


def test_process_sets_come_and_go(pool: Pool, environ: dict[str, str]) -> None:
    for found in pool.run(work.dynamic_sets, 3, environ=environ):
        assert found["twice"].startswith("ValueError: Attempted to add a duplicate process set")
        assert found["strange"] == "ValueError: [0, 9] is no set of the 3 ranks."
        assert "ranks of the set: rank 0: 1, ranks 1, 2: 0" in found["differ"]
        assert (found["number"], found["removed"], found["after"], found["again"]) == (
            1,
            True,
            None,
            2,
        )
        assert found["static"].startswith("ValueError: Set HOROVOD_DYNAMIC_PROCESS_SETS=1")


def test_a_set_is_named_once(pool: Pool, environ: dict[str, str]) -> None:
    for said in pool.run(work.same_set_twice, 2, environ=environ):
        assert said.startswith("ValueError: Horovod could not be initialized because process_sets")
        assert said.endswith("initialized: False")


def test_sets_of_communicators(mpi_pool: Pool, environ: dict[str, str]) -> None:
    found = mpi_pool.run(work.sets_of_communicators, 4, environ=environ)
    sets = {0: (0, 1, 2, 3), 1: (0, 2), 2: (1, 3)}
    assert found == [
        {"ranks": list(sets[1 + rank % 2]), "sum": sum(sets[1 + rank % 2]), "sets": sets}
        for rank in range(4)
    ]
