from __future__ import annotations

from datetime import UTC, datetime, timedelta

from aitne.core.cluster.gpu_forecast import HORIZON, GpuUse, forecast_gpus
from aitne.core.models.cluster import GpuCount, Node, NodeState

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def node(name: str, used: int, *, kind: str | None = "a100", state: str = "mixed") -> Node:
    return Node(
        name=name,
        state=NodeState(state),
        cpu_total=8,
        cpu_used=0,
        memory_total_bytes=1,
        memory_used_bytes=0,
        gpus=(GpuCount(type=kind, total=4, used=used),),
        seen_at=NOW,
    )


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_gpus_come_back_when_their_jobs_time_is_up() -> None:
    held = [
        GpuUse(("n1", "n2"), "a100", 4, after(60)),
        GpuUse(("n1",), None, 1, after(30.5)),
        GpuUse(("n2",), "a100", 1, after(-5)),
        GpuUse(("n2",), "a100", 1, NOW + 2 * HORIZON),
    ]
    (found,) = forecast_gpus([node("n1", 3), node("n2", 4)], held, [GpuUse((), None, 2, None)], NOW)
    assert (found.total, found.free, found.used, found.out, found.waiting) == (8, 1, 7, 0, 2)
    assert [(step.at, step.free) for step in found.forecast] == [
        (NOW, 1),
        (after(1), 2),
        (after(31), 3),
        (after(60), 7),
    ]
    assert found.next_free_at == after(1)
    assert found.end_unknown == 0


def test_gpus_of_unknown_jobs_have_no_forecast_end() -> None:
    (found,) = forecast_gpus([node("n1", 4)], [], [], NOW)
    assert (found.end_unknown, found.next_free_at, len(found.forecast)) == (4, None, 1)


def test_a_drained_node_gives_nothing() -> None:
    nodes = [node("n1", 1, state="draining"), node("n2", 0, kind="l4")]
    a100, l4 = forecast_gpus(nodes, [GpuUse(("n1",), "a100", 1, after(10))], [], NOW)
    assert (a100.type, a100.free, a100.out, a100.next_free_at) == ("a100", 0, 3, None)
    assert (l4.type, l4.free) == ("l4", 4)
