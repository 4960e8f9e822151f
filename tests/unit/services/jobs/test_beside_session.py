"""Ranks that could start only after their session, with which they are cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.errors import FieldProblem
from aitne.core.models.cluster import GpuCount, Node, NodeState
from aitne.core.models.resources import GpuRequest, Resources
from aitne.services.jobs.rank_group_fit import session_problems
from tests.support.jobs import CREATED_AT, make_rank_group, make_session

GIB = 1 << 30


def node(name: str = "n1", cpus: int = 2, used: int = 1, **fields: Any) -> Node:
    return Node.model_validate(
        {
            "name": name,
            "state": NodeState.MIXED,
            "cpu_total": cpus,
            "cpu_used": used,
            "memory_total_bytes": 8 * GIB,
            "memory_used_bytes": 2 * GIB,
            "seen_at": CREATED_AT,
            **fields,
        }
    )


def problems(
    nodes: list[Node], ranks: int, *, on: int = 1, slurm: dict[str, Any] | None = None, **own: Any
) -> list[FieldProblem]:
    held = Resources(nodes=1, cpu=1, memory_bytes=2 * GIB, gpu=own.pop("held", GpuRequest(count=0)))
    session = make_session(nodes=("n1",), spec={"resources": held, "slurm": slurm or {}})
    wish = {"nodes": on, "cpu": ranks, "memory_bytes": ranks * GIB, "gpu": GpuRequest(count=0)}
    group = make_rank_group(
        session,
        spec={"resources": Resources(**(wish | own)), "distributed": {"ranks_per_node": ranks}},
    )
    return list(session_problems(group.spec, session, nodes))


def test_ranks_that_only_the_end_of_their_session_makes_room_for_are_refused_with_what_fits() -> (
    None
):
    (problem,) = problems([node()], 2)
    assert problem.field == "ranks"
    assert problem.message == (
        "2 ranks cannot start while session lab runs, which holds a part of what they need; 1 rank can"
    )
    assert (problem.value, problem.allowed) == ("2", "1")


def test_ranks_that_other_jobs_leave_no_room_for_now_may_wait() -> None:
    assert problems([node(cpus=4, used=4)], 3) == []
    assert problems([node(), node("n2", used=2)], 2) == []
    assert problems([], 64) == [], "no node has reported yet"


def test_ranks_on_several_nodes_need_room_on_each_of_them() -> None:
    (problem,) = problems([node(), node("n2")], 2, on=2)
    assert problem.allowed == "1 to 2"
    assert problem.message.endswith("; 2 ranks can")
    assert problems([node(), node("n2"), node("n3")], 2, on=2) == []


@pytest.mark.parametrize(
    ("used", "refused"), [(1, True), (0, False)], ids=["counted", "not counted by the scheduler"]
)
def test_gpus_of_the_session_are_not_there_for_its_ranks(used: int, refused: bool) -> None:
    gpus = (GpuCount(type="a100", total=2, used=used),)
    found = problems(
        [node(cpus=8, gpus=gpus)],
        2,
        held=GpuRequest(count=1, type="a100"),
        gpu=GpuRequest(count=2),
    )
    assert bool(found) is refused


def test_memory_counts_too_and_a_request_of_which_nothing_fits_says_so() -> None:
    (problem,) = problems([node(cpus=8)], 1, memory_bytes=7 * GIB)
    assert problem.message.endswith("holds a part of what they need")
    assert problem.allowed == "less for each rank, or a smaller session"


def test_an_exclusive_session_leaves_nothing_of_its_node() -> None:
    (problem,) = problems([node(cpus=8), node("n2", cpus=1)], 2, slurm={"exclusive": True})
    assert problem.allowed == "1"
