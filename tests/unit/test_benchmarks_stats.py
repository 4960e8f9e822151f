from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.figures import Figure, Row, table, write
from benchmarks.stats import (
    Estimate,
    bootstrap,
    median,
    median_ratio,
    quantile,
    quantile_estimate,
    quantile_ratio,
)


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([1, 2], 0) == 1
    assert quantile([1, 2], 1) == 2
    with pytest.raises(ValueError, match="nothing was measured"):
        quantile([], 0.5)


@pytest.mark.parametrize(("count", "rank"), [(5, 0), (6, 0), (9, 1), (30, 9), (100, 39)])
def test_the_medians_interval_is_that_of_the_tables(count: int, rank: int) -> None:
    found = median([float(value) for value in range(count)])
    assert (found.low, found.high, found.count) == (rank, count - 1 - rank, count)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    draw = random.Random(3)
    held = 0
    for _ in range(200):
        found = median([draw.gauss(10, 2) for _ in range(31)])
        held += found.low <= 10 <= found.high
    assert held >= 180


def test_ratios_are_of_pairs() -> None:
    pairs = [(2.0 * pace, pace) for pace in (1.0, 5.0, 9.0, 2.0, 3.0, 7.0)]
    assert median_ratio(pairs) == Estimate(2, 2, 2, 6)
    assert quantile_ratio(pairs, 0.95) == Estimate(2, 2, 2, 6)


def test_a_bootstrap_gives_the_same_answer_again() -> None:
    values = [random.Random(4).random() for _ in range(50)]
    once = quantile_estimate(values, 0.9)
    assert once == quantile_estimate(values, 0.9)
    assert once.low <= once.value <= once.high
    assert bootstrap([1.0, 1.0], sum, resamples=10) == Estimate(2, 2, 2, 2)


def test_figures_are_shown_and_written_between_their_marks(tmp_path: Path) -> None:
    figure = Figure(
        "page",
        "A page",
        [
            Row("ratio", "x", Estimate(2.5, 2.25, 3.5, 30), 3.0),
            Row("time", "ms", Estimate(120, 120, 120, 1), 100),
        ],
        ["as it is"],
    )
    assert "2.5 x" in table(figure)
    assert table(figure).count("met") == 1
    page = tmp_path / "figures.md"
    page.write_text("before\n<!-- begin page -->\nold\n<!-- end page -->\nafter\n")
    summary = tmp_path / "performance.md"
    summary.write_text("a\n<!-- begin targets -->\nold\n<!-- end targets -->\nb\n")
    assert write([figure, Figure("other", "", [])], tmp_path) == ["other"]
    targets = summary.read_text()
    assert "| `page` | ratio | 2.5 x | ≤ 3 x | met |" in targets
    assert "| `page` | time | 120 ms | ≤ 100 ms | missed |" in targets
    assert "old" not in targets
    text = page.read_text()
    assert "| ratio | 2.5 x | 2.25 – 3.5 | 30 | ≤ 3 x | met |" in text
    assert "missed" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
