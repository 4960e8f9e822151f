"""Metrics that an agent collects from what the job's program writes."""

from __future__ import annotations

import pytest

from aitne.agent.program_metrics import MOST_POINTS, ProgramMetrics


@pytest.mark.parametrize("count", [1, MOST_POINTS - 1, MOST_POINTS, MOST_POINTS + 1, 1_501])
def test_series_ends_at_the_last_value_however_many_points_are_left_out(count: int) -> None:
    metrics = ProgramMetrics()
    for step in range(count):
        metrics.add("loss", 1 / (1 + step), step)
    document = metrics.document()
    points = document["series"]["loss"]
    assert points[0] == (0, 1.0)
    assert points[-1] == (count - 1, document["values"]["loss"])
    assert len(points) <= MOST_POINTS + 1
    assert [step for step, _ in points] == sorted({step for step, _ in points})
