"""The harness of ranks: a failing rank fails its test."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from tests.support import realtime
from tests.support.ranks import MpiPool, Pool, Rank, RanksFailedError

pytestmark = realtime.RANKS


def who(me: Rank, word: str) -> tuple[int, int, str, str]:
    sys.stderr.write(f"{word} from {me.rank}\n")
    return me.rank, me.size, os.environ["HOROVOD_LOCAL_RANK"], os.environ["HOROVOD_CROSS_RANK"]


def process(me: Rank) -> int:
    return os.getpid()


def meet(me: Rank) -> bytes:
    me.store.set(f"from{me.rank}", bytes([me.rank]))
    return me.store.get(f"from{(me.rank + 1) % me.size}", 10)


def refuse(me: Rank) -> None:
    sys.stderr.write("last words\n")
    if me.rank == 1:
        raise ValueError("rank one objects")


def stay(me: Rank) -> None:
    if me.rank == 0:
        sys.stderr.write("waiting\n")
        time.sleep(600)


def end(me: Rank) -> str:
    if me.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "left"


def variable(me: Rank, name: str) -> str | None:
    return os.environ.get(name)


def test_each_rank_knows_its_place_on_pretended_nodes(pool: Pool) -> None:
    found = pool.run(who, 3, "hello", nodes=(0, 0, 1))
    assert found == [(0, 3, "0", "0"), (1, 3, "1", "0"), (2, 3, "0", "1")]


def test_processes_stay_for_the_next_call(pool: Pool) -> None:
    first = pool.run(process, 2)
    assert pool.run(process, 2) == first
    assert len(set(first)) == 2


def test_ranks_meet_in_the_store(pool: Pool) -> None:
    assert pool.run(meet, 2) == [b"\x01", b"\x00"]


def test_a_variable_lasts_for_one_call(pool: Pool) -> None:
    assert pool.run(variable, 1, "AITNE_X", environ={"AITNE_X": "1"}) == ["1"]
    assert pool.run(variable, 1, "AITNE_X") == [None]


def test_an_exception_fails_with_what_ranks_printed_and_replaces_them(pool: Pool) -> None:
    before = pool.run(process, 2)
    with pytest.raises(RanksFailedError, match="rank one objects") as failed:
        pool.run(refuse, 2)
    assert "last words" in str(failed.value)
    assert not set(before) & set(pool.run(process, 2))


def test_a_rank_that_does_not_end_shows_where_it_is(pool: Pool) -> None:
    pool.run(process, 2)  # both have imported the module
    with pytest.raises(RanksFailedError, match="did not end") as failed:
        pool.run(stay, 2, timeout_s=2)
    assert "waiting" in str(failed.value)
    assert "in stay" in str(failed.value)


def test_a_rank_may_die_when_that_is_expected(pool: Pool) -> None:
    assert pool.run(end, 2, dying={1}) == ["left", None]
    with pytest.raises(RanksFailedError, match="its process ended"):
        pool.run(end, 2)


def test_mpirun_starts_ranks_too(mpi_pool: MpiPool) -> None:
    assert [found[:2] for found in mpi_pool.run(who, 2, "hello")] == [(0, 2), (1, 2)]
