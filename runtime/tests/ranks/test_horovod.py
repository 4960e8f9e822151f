"""The real Horovod as a transport: what the suite for all transports does not ask."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from aitne_train.transport.base import Reduction, TransportError
from aitne_train.transport.horovod import Horovod
from tests.support.ranks import MpiPool, Pool, Rank
from tests.support.requirements import need_horovod


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    need_horovod()


def total(me: Rank) -> float:
    transport = Horovod.connect(me.group(), "cpu")
    flat = torch.tensor([me.rank + 1.0])
    transport.allreduce(flat, Reduction.SUM)
    transport.close()
    return flat.item()


def refusals(me: Rank) -> tuple[str | None, str]:
    try:
        Horovod.connect(me.group((me.rank,)), "cpu")
    except TransportError as error:
        return Horovod.refusal(me.nodes, "cpu"), str(error)
    return None, "it connected"


def bereaved(me: Rank) -> str:
    transport = Horovod.connect(me.group(), "cpu")
    transport.barrier()
    if me.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        transport.allreduce(torch.ones(4), Reduction.SUM)
    except TransportError as error:
        return str(error)
    return "it went on"


def test_a_process_can_be_of_one_world_after_another(pool: Pool) -> None:
    assert pool.run(total, 2) == [3.0] * 2
    assert pool.run(total, 3) == [6.0] * 3


def test_horovod_uses_mpi_for_ranks_that_mpi_started(mpi_pool: MpiPool) -> None:
    assert mpi_pool.run(total, 2) == [3.0] * 2


def test_horovod_refuses_a_part_of_the_ranks(pool: Pool) -> None:
    whole, message = pool.run(refusals, 2)[0]
    assert whole is None
    assert message == "horovod: it takes all 2 ranks, not 1 of them"


def test_a_rank_that_died_is_an_error_of_the_others(pool: Pool) -> None:
    assert "horovod: " in pool.run(bereaved, 2, dying={1})[0]
