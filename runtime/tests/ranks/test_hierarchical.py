"""Two transports in one, on nodes with as many ranks each and on others; the suite for all runs it on one node."""

from __future__ import annotations

import pytest
import torch
from runtime.tests.ranks import transport_work as work

from aitne_train.transport.base import TransportError
from aitne_train.transport.hierarchical import ACROSS, Hierarchical
from tests.support.ranks import MpiPool, Pool, Rank

LAYOUTS = [(0, 0, 1, 1), (0, 0, 1), (0, 1, 1), (0, 1)]
NAME = "hierarchical"
TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def across(me: Rank) -> str:
    try:
        transport = Hierarchical.connect(me.group(), "cpu")
    except TransportError as error:
        return str(error)
    transport.close()
    return ""


@pytest.mark.parametrize("nodes", LAYOUTS, ids=str)
def test_all_collectives_do_the_same_as_in_one_process(pool: Pool, nodes: tuple[int, ...]) -> None:
    size = len(nodes)
    parts = [5, 0, 1001, 64][:size]
    pool.run(work.all_reduce, size, NAME, (0, 1, 3, 65, 9_001), TYPES, nodes=nodes)
    pool.run(work.reduce_scatter, size, NAME, parts, TYPES, nodes=nodes)
    pool.run(work.all_gather, size, NAME, parts, TYPES, nodes=nodes)
    pool.run(work.broadcast, size, NAME, (0, 1, 1001), TYPES, nodes=nodes)
    pool.run(work.all_to_all, size, NAME, 17, TYPES, nodes=nodes)
    pool.run(work.mixed, size, NAME, 10, nodes=nodes)


@pytest.mark.parametrize("nodes", LAYOUTS[:2], ids=str)
def test_all_ranks_get_the_same_bits(pool: Pool, nodes: tuple[int, ...]) -> None:
    first, *others = pool.run(work.same_bits_everywhere, len(nodes), NAME, 501, nodes=nodes)
    assert all(each == first for each in others)


@pytest.mark.parametrize("nodes", LAYOUTS[:2], ids=str)
def test_a_death_on_one_node_is_an_error_on_all(pool: Pool, nodes: tuple[int, ...]) -> None:
    size = len(nodes)
    outcomes = pool.outcomes(work.left_by_killed, size, NAME, 1, 4, nodes=nodes)
    assert [each.died for each in outcomes] == [rank == 1 for rank in range(size)]
    for each in outcomes:
        if not each.died:
            told, _, memory_left = each.value
            assert all(told)
            assert not memory_left


def test_mpi_can_serve_between_nodes(mpi_pool: MpiPool) -> None:
    nodes = (0, 0, 1, 1)
    environ = {ACROSS: "mpi"}
    mpi_pool.run(work.all_reduce, 4, NAME, (1, 9_001), TYPES, nodes=nodes, environ=environ)


def test_a_transport_across_that_cannot_serve_is_named(pool: Pool) -> None:
    found = pool.run(across, 2, nodes=(0, 1), environ={ACROSS: "shm"})
    assert found[0].startswith("hierarchical: between nodes shm cannot serve: ")
