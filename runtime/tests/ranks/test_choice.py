"""Tests of the choice of a transport, and of the errors when none can serve."""

from __future__ import annotations

import pytest

from aitne_train.transport.base import TransportError
from aitne_train.transport_choice import choose_transport


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        ((0, 0), "shm"),
        ((0, 1), "torch_pg"),
        ((0, 0, 1, 1), "hierarchical"),
        ((0, 0, 1), "hierarchical"),
        ((0, 1, 0, 1), "torch_pg"),
    ],
)
def test_auto_goes_by_where_the_ranks_are(nodes: tuple[int, ...], name: str) -> None:
    assert choose_transport(nodes, "cpu").name == name


def test_requested_transport_is_chosen() -> None:
    assert choose_transport((0, 0), "cpu", "torch_pg").name == "torch_pg"


def test_an_unknown_one_is_refused_with_a_list_of_what_there_is() -> None:
    with pytest.raises(TransportError) as refused:
        choose_transport((0, 0), "cpu", "pigeon")
    assert str(refused.value) == (
        "There is no transport 'pigeon'; there is: "
        "hierarchical, horovod, mpi, shm, torch_pg. ('auto' chooses one.)"
    )


def test_a_wanted_one_that_cannot_serve_says_why() -> None:
    with pytest.raises(TransportError, match=r"'shm' cannot be used: .*2 nodes"):
        choose_transport((0, 1), "cpu", "shm")
    with pytest.raises(TransportError, match=r"'mpi' cannot be used: MPI did not start"):
        choose_transport((0, 0), "cpu", "mpi")


def test_where_nothing_can_serve_each_reason_is_said() -> None:
    with pytest.raises(TransportError, match=r"on xpu \(torch_pg: it takes tensors on cpu"):
        choose_transport((0, 0), "xpu")
