"""Tests whether a request fits or starts now, and of the message otherwise."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.cluster.request_fit import check_fit
from aitne.core.models.cluster import GpuCount, Node, NodeState
from aitne.core.models.resources import GpuRequest, Resources

G = 1 << 30


def node(
    name: str = "n1",
    cpu: int = 8,
    memory: int = 32 * G,
    gpus: tuple[GpuCount, ...] = (),
    used: int = 0,
    state: NodeState = NodeState.MIXED,
    reason: str | None = None,
) -> Node:
    return Node(
        name=name,
        state=state,
        reason=reason,
        cpu_total=cpu,
        cpu_used=used,
        memory_total_bytes=memory,
        memory_used_bytes=0,
        gpus=gpus,
        seen_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def ask(
    nodes: int = 1, cpu: int = 1, memory: int = G, gpu: int = 0, kind: str | None = None
) -> Resources:
    return Resources(
        nodes=nodes, cpu=cpu, memory_bytes=memory, gpu=GpuRequest(count=gpu, type=kind)
    )


A100 = node("g1", gpus=(GpuCount(type="a100", total=4, used=3),))


def test_no_node_known_yet_lets_it_through_to_wait() -> None:
    found = check_fit(ask(cpu=10_000), [])
    assert found.fits
    assert not found.starts_now
    assert found.reason == "No node has reported to the platform yet."


def test_a_free_node_starts_it_now() -> None:
    assert check_fit(ask(), [node()]).starts_now


@pytest.mark.parametrize(
    ("resources", "field", "message", "allowed"),
    [
        (
            ask(gpu=5),
            "resources.gpu",
            "5 requested; the largest node has 4 a100",
            "at most a100:4",
        ),
        (ask(gpu=1, kind="h100"), "resources.gpu", "type h100", "at most a100:4"),
        (ask(cpu=9), "resources.cpu", "9 requested; the largest node has 8", "1 to 8"),
        (ask(memory=33 * G), "resources.memory", "33 GiB requested; the largest", "at most 32 GiB"),
        (ask(nodes=3, cpu=8), "resources.nodes", "3 nodes requested; the job can use 2", "1 to 2"),
    ],
)
def test_resource_that_never_fits_is_named(
    resources: Resources, field: str, message: str, allowed: str
) -> None:
    found = check_fit(resources, [A100, node()])
    assert not found.fits
    assert not found.starts_now
    (problem,) = found.problems
    assert problem.field == field
    assert message in problem.message
    assert problem.allowed == allowed
    assert problem.value


def test_no_gpu_anywhere() -> None:
    (problem,) = check_fit(ask(gpu=1), [node()]).problems
    assert (problem.message, problem.allowed) == ("no node has a GPU", "0")


def test_all_resources_that_are_too_large_are_named() -> None:
    found = check_fit(ask(cpu=99, memory=99 * G, gpu=9), [A100])
    assert [problem.field for problem in found.problems] == [
        "resources.gpu",
        "resources.cpu",
        "resources.memory",
    ]


def test_parts_that_no_single_node_has_together() -> None:
    (problem,) = check_fit(ask(cpu=16, gpu=1), [A100, node("big", cpu=16)]).problems
    assert problem.field == "resources"
    assert problem.allowed == "16 CPUs, 32 GiB; 8 CPUs, 32 GiB, 4 a100"


@pytest.mark.parametrize(
    ("resources", "nodes", "reason"),
    [
        (ask(cpu=8), [node(used=6)], "Waits for 6 CPUs to become free."),
        (ask(cpu=3), [node(used=6)], "Waits for 1 CPU to become free."),
        (ask(gpu=2), [A100], "Waits for 1 GPU to become free."),
        (ask(gpu=4, kind="a100"), [A100], "Waits for 3 a100 GPUs to become free."),
        (
            ask(),
            [node(state=NodeState.DRAINED, reason="a fan [root]"), node("n2", cpu=0)],
            "Waits for a node to come back into service: n1 is drained (a fan [root]).",
        ),
        (
            ask(nodes=3),
            [node("n1"), node("n3", state=NodeState.DOWN), node("n2", state=NodeState.DRAINING)],
            "Waits for 2 nodes to come back into service: n2 is draining, n3 is down.",
        ),
        (
            ask(),
            [node(f"n{n}", state=NodeState.DOWN) for n in range(7)],
            "Waits for a node to come back into service: n0 is down, n1 is down, n2 is down, "
            "n3 is down, n4 is down, 2 more.",
        ),
        (
            ask(nodes=2, cpu=8),
            [node(), node("n2", used=1)],
            "Waits for 2 nodes with that much free; 1 has it now.",
        ),
    ],
)
def test_why_it_waits(resources: Resources, nodes: list[Node], reason: str) -> None:
    found = check_fit(resources, nodes)
    assert found.fits
    assert not found.starts_now
    assert found.reason == reason


NODES = st.lists(
    st.builds(
        node,
        name=st.sampled_from(["n1", "n2", "n3"]),
        cpu=st.integers(1, 16),
        memory=st.integers(1, 64 * G),
        gpus=st.lists(
            st.builds(
                lambda kind, total: GpuCount(type=kind, total=total, used=0),
                st.sampled_from([None, "a100", "v100"]),
                st.integers(0, 8),
            ),
            max_size=2,
        ).map(tuple),
        state=st.sampled_from(NodeState),
    ),
    max_size=4,
)
REQUESTS = st.builds(
    ask,
    nodes=st.integers(1, 4),
    cpu=st.integers(1, 32),
    memory=st.integers(1, 64 * G),
    gpu=st.integers(1, 8),
    kind=st.sampled_from([None, "a100"]),
)


@given(REQUESTS, NODES)
def test_every_answer_is_whole(resources: Resources, nodes: list[Node]) -> None:
    found = check_fit(resources, nodes)
    assert found.fits or not found.starts_now
    assert bool(found.problems) is not found.fits
    assert (found.reason is None) is (found.starts_now or not found.fits)
