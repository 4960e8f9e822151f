"""MPI as a transport: what the suite for all transports does not ask."""

from __future__ import annotations

import threading

import torch

from aitne_train.transport.base import Reduction, TransportError
from aitne_train.transport.mpi import Mpi
from tests.support.ranks import MpiPool, Pool, Rank


def halves(me: Rank) -> list[list[float]]:
    mpi = Mpi.connect(me.group(), "cpu")
    found = []
    for dtype in (torch.float16, torch.bfloat16):
        for op in Reduction:
            flat = torch.tensor([me.rank + 1.0, -2.0, 0.5]).to(dtype)
            mpi.allreduce(flat, op)
            found.append(flat.tolist())
    mpi.close()
    return found


def parts_of_the_world(me: Rank) -> float:
    """Sum over rank 0 alone, and over the other ranks among themselves."""
    members = (0,) if me.rank == 0 else (1, 2)
    mpi = Mpi.connect(me.group(members), "cpu")
    flat = torch.tensor([me.rank * 1.0])
    mpi.allreduce(flat, Reduction.SUM)
    mpi.close()
    return flat.item()


def abort(me: Rank) -> str:
    mpi = Mpi.connect(me.group(), "cpu")
    if me.rank == 0:
        return ""
    threading.Timer(0.2, mpi.abort, ["enough"]).start()
    try:
        mpi.allreduce(torch.ones(4), Reduction.SUM)
    except TransportError as error:
        return str(error)
    return "it went on"


def absent(me: Rank) -> str:
    if me.rank == 0:
        return ""
    try:
        Mpi.connect(me.group(timeout_s=0.5), "cpu")
    except TransportError as error:
        return str(error)
    return "it connected"


def refusal(me: Rank) -> tuple[str | None, str | None]:
    return Mpi.refusal(me.nodes, "cpu"), Mpi.refusal(me.nodes, "cuda")


def test_the_floats_that_mpi_does_not_know_are_reduced(mpi_pool: MpiPool) -> None:
    for found in mpi_pool.run(halves, 3):
        assert found == [[6, -6, 1.5], [1, -2, 0.5], [3, -2, 0.5], [6, -8, 0.125]] * 2


def test_members_need_not_be_the_whole_world(mpi_pool: MpiPool) -> None:
    assert mpi_pool.run(parts_of_the_world, 3) == [0.0, 3.0, 3.0]


def test_an_abort_ends_the_wait_for_a_late_member(mpi_pool: MpiPool) -> None:
    assert mpi_pool.run(abort, 2)[1] == "enough"


def test_a_member_that_does_not_turn_up_is_missed(mpi_pool: MpiPool) -> None:
    assert "not all of 2 ranks connected within 0.5 s" in mpi_pool.run(absent, 2)[1]


def test_without_mpi_s_launcher_it_refuses_and_says_how_to_start(pool: Pool) -> None:
    cpu, cuda = pool.run(refusal, 2)[0]
    assert cpu == ("MPI did not start this process: start the ranks with mpirun or srun --mpi=pmix")
    assert cuda == "it takes tensors on cpu, not on cuda"


def test_a_world_of_another_size_is_refused(mpi_pool: MpiPool) -> None:
    cpu, _ = mpi_pool.run(refusal, 2, environ={"HOROVOD_SIZE": "4"})[0]
    assert cpu is not None
    assert cpu.startswith("MPI's world has 2 ranks, not 4: start the ranks")
