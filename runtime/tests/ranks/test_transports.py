"""Every transport of the package does the same: one suite, against what a single process computes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from runtime.tests.ranks import transport_work as work

from aitne_train.transport import _shm_kernel
from aitne_train.transport_choice import TRANSPORTS
from tests.support.ranks import Pool
from tests.support.requirements import need_horovod

SIZES = (1, 2, 3, 4)
NOT_TRANSPORTS = {"base"}
"""The contract that all others fulfil."""
WORLDS_OF_MPI = {"mpi", "horovod"}
"""The transports that need MPI's launcher, or have one world in the life of a process."""
_LAYOUTS = ((0,) * 4, (0, 0, 1, 1), (0, 1, 2, 3))


@dataclass(frozen=True)
class Way:
    """A transport, and how it is made to go one of its ways."""

    id: str
    name: str
    environ: tuple[tuple[str, str | None], ...] = ()


def _ways() -> list[Way]:
    names = [name for name in TRANSPORTS.names() if name not in NOT_TRANSPORTS]
    return [Way(name, name) for name in names if name != "shm"] + [
        Way("shm-kernel", "shm", ((_shm_kernel.SWITCH, None),)),
        Way("shm-pure", "shm", ((_shm_kernel.SWITCH, "off"),)),
    ]


class Ranks:
    """Runs a function on ranks that this transport connects."""

    def __init__(self, way: Way, pool: Pool) -> None:
        self.way = way
        self.environ = dict(way.environ)
        self._pool = pool

    def run(self, function: Any, size: int, *arguments: Any, **options: Any) -> list[Any]:
        return self._pool.run(
            *(function, size, self.way.name, *arguments),
            **{"nodes": self._nodes(size), "environ": self.environ, **options},
        )

    def outcomes(self, function: Any, size: int, *arguments: Any, **options: Any) -> list[Any]:
        return self._pool.outcomes(
            *(function, size, self.way.name, *arguments),
            **{"nodes": self._nodes(size), "environ": self.environ, **options},
        )

    def _nodes(self, size: int) -> tuple[int, ...]:
        """Return the first layout of nodes that the transport accepts; skip the test without one."""
        why = []
        for nodes in _LAYOUTS:
            chosen = nodes[:size] if size > 1 else (0,)
            args = (work.refused, size, self.way.name, chosen, "cpu")
            found = self._pool.run(*args, nodes=chosen, environ=self.environ)
            if found[0] is None:
                return chosen
            why.append(found[0])
        pytest.skip(f"{self.way.name}: {why[0]}")


@pytest.fixture(params=[pytest.param(way, id=way.id) for way in _ways()])
def ranks(request: pytest.FixtureRequest) -> Ranks:
    way: Way = request.param
    if way.name == "horovod":
        need_horovod()
    if way.id == "shm-kernel" and (why := _shm_kernel.get_unavailable_reason()):
        if shutil.which("cc") is None:
            pytest.skip("no C compiler")
        pytest.fail(f"The kernel cannot be used: {why}.")
    name = "mpi_pool" if way.name in WORLDS_OF_MPI else "pool"
    return Ranks(way, request.getfixturevalue(name))


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_all_ranks_values_reduced(ranks: Ranks, size: int) -> None:
    ranks.run(work.all_reduce, size, (0, 1, 3, 65, 1000, 9_001), work.REDUCED)


def test_reduction_keeps_the_types_of_training(ranks: Ranks) -> None:
    for reduced in ranks.run(work.what_it_reduces, 2):
        assert set(reduced) >= {torch.float16, torch.float32, torch.float64, torch.int64}


@pytest.mark.parametrize("size", [2, 3])
def test_a_message_of_many_pieces_is_reduced_whole(ranks: Ranks, size: int) -> None:
    ranks.run(work.all_reduce, size, (700_001,), (torch.float32, torch.bfloat16))


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_its_own_part_of_the_reduced_values(ranks: Ranks, size: int) -> None:
    ranks.run(work.reduce_scatter, size, [5, 0, 1001, 64][:size], work.REDUCED)


def test_parts_that_take_many_pieces_are_reduced_whole(ranks: Ranks) -> None:
    ranks.run(work.reduce_scatter, 2, [400_003, 7], (torch.float32, torch.int16))


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_all_ranks_values_of_different_counts(ranks: Ranks, size: int) -> None:
    ranks.run(work.all_gather, size, [3, 0, 501, 64][:size], work.MOVED)


def test_values_that_take_many_pieces_are_gathered_whole(ranks: Ranks) -> None:
    ranks.run(work.all_gather, 3, [1, 700_001, 300_000], (torch.float32,))


def test_gathering_from_no_ranks_is_empty(ranks: Ranks) -> None:
    ranks.run(work.all_gather, 2, [0, 0], (torch.float32,))


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_the_root_s_values(ranks: Ranks, size: int) -> None:
    ranks.run(work.broadcast, size, (0, 1, 1001), work.MOVED)


def test_a_root_s_many_pieces_come_whole(ranks: Ranks) -> None:
    ranks.run(work.broadcast, 3, (700_001,), (torch.float32,))


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_gets_what_each_has_for_it(ranks: Ranks, size: int) -> None:
    ranks.run(work.all_to_all, size, 17, work.MOVED)


def test_parts_for_each_that_take_many_pieces_come_whole(ranks: Ranks) -> None:
    ranks.run(work.all_to_all, 3, 200_001, (torch.float32,))


def test_all_ranks_get_the_same_bits(ranks: Ranks) -> None:
    for count in (501, 150_001):
        first, *others = ranks.run(work.same_bits_everywhere, 3, count)
        assert all(each == first for each in others)


def test_collectives_of_all_kinds_follow_each_other(ranks: Ranks) -> None:
    ranks.run(work.mixed, 3, 25)


def test_two_groups_work_at_the_same_time(ranks: Ranks) -> None:
    ranks.run(work.two_at_once, 2)


def test_barrier_waits_for_all_ranks(ranks: Ranks, tmp_path: Path) -> None:
    for seen in ranks.run(work.barrier, 3, str(tmp_path)):
        assert seen == [[0, 1, 2]] * 5


def test_a_wait_is_broken_off_from_another_thread(ranks: Ranks) -> None:
    told, took = ranks.run(work.aborted, 2)[0]
    assert "somebody wanted it so" in told
    # 0.3 s until it is broken off, and a second at most to notice.
    assert took < 5


@pytest.mark.parametrize("count", [4, 300_000])
def test_survivors_of_a_killed_rank_are_told_within_seconds(ranks: Ranks, count: int) -> None:
    outcomes = ranks.outcomes(work.left_by_killed, 3, 1, count, timeout_s=30)
    assert outcomes[1].died
    for outcome in outcomes[::2]:
        if ranks.way.name in WORLDS_OF_MPI and outcome.died:
            continue  # MPI's launcher ends all ranks when one dies
        assert not outcome.error, outcome.error
        told, took, memory_left = outcome.value
        assert all(told)
        assert took < 10
        assert not memory_left
