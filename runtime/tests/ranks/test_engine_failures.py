"""Ranks that disagree, wait for each other, die or leave: the error names them on all others."""

from __future__ import annotations

import pytest
from runtime.tests.ranks import engine_work as work

from tests.support import realtime
from tests.support.ranks import Pool

pytestmark = realtime.RANKS

SHM = {"AITNE_TRANSPORT": "shm"}


def test_ranks_that_disagree_hear_it_and_go_on(pool: Pool) -> None:
    for found in pool.run(work.disagree, 2, environ=SHM):
        shape, dtype, root, unsupported, twice, gone, fine = found
        assert shape == (
            "HorovodInternalError: allreduce 'shape': ranks disagree on the shape: rank 0: [1], rank 1: [2]."
        )
        assert "dtype: rank 0: int64, rank 1: int32" in dtype
        assert "root rank: rank 0: 0, rank 1: 1" in root
        assert unsupported == (
            "HorovodInternalError: allreduce: shm cannot take the sum of elements of type torch.uint64."
        )
        assert twice.startswith("ValueError: allreduce 'twice' is still in progress")
        assert gone.startswith("ValueError: Handle")
        assert fine == "2.0"


def test_ranks_that_wait_for_each_other_are_named(pool: Pool) -> None:
    (first, second) = pool.run(work.different_collectives, 2, environ=SHM)
    assert first == second
    assert "rank 0 waits in allreduce 'b', rank 1 waits in allgather 'a'" in first


def test_a_stall_is_told_with_who_is_missing_and_ends_when_asked_to(pool: Pool) -> None:
    environ = SHM | {
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "1",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "2",
    }
    outcomes = pool.outcomes(work.stalled, 2, environ=environ)
    for outcome in outcomes:
        assert "Stalled for too long: " in outcome.value
        assert "allreduce 'a' waits for rank 1 since" in outcome.value
    assert "A collective is late: allreduce 'a' waits for rank 1" in outcomes[0].output


@pytest.mark.parametrize(
    ("transport", "victim", "busy"),
    [("shm", 0, False), ("shm", 1, True), ("torch_pg", 0, True), ("torch_pg", 1, False)],
)
def test_survivors_hear_who_died(pool: Pool, transport: str, victim: int, busy: bool) -> None:
    environ = {"AITNE_TRANSPORT": transport}
    found = pool.run(work.killed, 3, victim, busy, environ=environ, dying=[victim])
    for rank, answer in enumerate(found):
        if rank != victim:
            error, later = answer
            assert error.startswith(f"HorovodInternalError: Rank {victim} is gone: its connection")
            assert later == error


def test_rank_that_cannot_handle_message_is_named(pool: Pool) -> None:
    first, second = pool.run(work.hears_no_more, 2, environ=SHM)
    assert first == "HorovodInternalError: Rank 1 is gone: its connection closed."
    assert second == (
        "HorovodInternalError: Rank 1 is gone: it could not handle a message ('what is not there')."
    )


def test_rank_that_shuts_down_early_is_named(pool: Pool) -> None:
    found = pool.run(work.leaves_early, 3, environ=SHM)
    assert found[1] == "left"
    assert found[0] == found[2]
    assert found[0] == "HorovodInternalError: Horovod has been shut down by rank 1."


def test_a_program_that_ends_while_others_wait_is_named(pool: Pool) -> None:
    found = pool.run(work.ends, 2, environ=SHM, dying=[1])
    assert found[0] == (
        "HorovodInternalError: Horovod has been shut down by rank 1, whose program has ended."
    )


def test_a_worker_that_outlives_its_rank_does_not_hide_its_death(pool: Pool) -> None:
    found = pool.run(work.forks, 2, environ=SHM, dying=[1])
    assert found[0].startswith("HorovodInternalError: Rank 1 is gone")


@pytest.mark.parametrize("transport", ["shm", "torch_pg"])
def test_rank_that_shuts_down_during_collective_is_named(pool: Pool, transport: str) -> None:
    found = pool.run(work.leaves_an_exchange, 2, environ={"AITNE_TRANSPORT": transport})
    assert found == ["Horovod has been shut down by rank 1.", "left"]


def test_a_rank_that_does_not_come_is_named(pool: Pool) -> None:
    environ = SHM | {"AITNE_RENDEZVOUS_TIMEOUT": "2", "AITNE_RENDEZVOUS_DIR": None}
    found = pool.run(work.missing, 2, environ=environ)
    assert found[0] == (
        "HorovodInternalError: Rank 0 could not join the others: ranks [1] did not connect within 2 s"
    )
