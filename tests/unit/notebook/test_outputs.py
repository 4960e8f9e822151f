"""Bounds of what an executed notebook keeps."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from aitne.notebook.cell_output_limits import (
    CELL_RICH_BYTES,
    CELL_TEXT_BYTES,
    MAX_OUTPUTS,
    NOTEBOOK_BYTES,
    CellOutputs,
    OutputBudget,
)

REPEATED_TEXTS = st.tuples(st.text(min_size=1, max_size=5), st.integers(1, 60_000))
"""Texts, and how often each is repeated: hypothesis shows an example, and rejects large ones."""


def figure(size: int, **fields: Any) -> dict[str, Any]:
    """Return an output with a picture of that many bytes."""
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {"image/png": "x" * size},
    } | fields


def text_of(cell: CellOutputs) -> str:
    """Return the text that a cell has printed."""
    return "".join(output["text"] for output in cell.kept if output["output_type"] == "stream")


def test_little_text_is_kept_as_it_was_printed() -> None:
    cell = CellOutputs([], OutputBudget())
    assert [
        cell.add_text("stdout", "a\n"),
        cell.add_text("stdout", "b\n"),
        cell.add_text("stderr", "c"),
    ] == [
        "a\n",
        "b\n",
        "c",
    ]
    assert cell.finish() == 0
    assert [(output["name"], output["text"]) for output in cell.kept] == [
        ("stdout", "a\nb\n"),
        ("stderr", "c"),
    ]


def test_of_much_text_the_beginning_and_the_end_are_kept() -> None:
    cell = CellOutputs([], OutputBudget())
    for number in range(100_000):
        cell.add_text("stdout", f"line {number}\n")
    cell.finish()
    text = text_of(cell)
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 99999\n")
    assert "MB of output left out]" in text or "kB of output left out]" in text
    assert len(text) < CELL_TEXT_BYTES + 200


@settings(max_examples=40)
@given(texts=st.lists(REPEATED_TEXTS, max_size=8), left=st.integers(0, 10**6))
@example(texts=[("ä€", 60_000)], left=10**6)
def test_text_never_exceeds_the_limit_and_gives_back_what_it_did_not_use(
    texts: list[tuple[str, int]], left: int
) -> None:
    budget = OutputBudget(left)
    cell = CellOutputs([], budget)
    for text, times in texts:
        cell.add_text("stdout", text * times)
    cell.finish()
    assert len(text_of(cell).encode("utf-8", "replace")) <= CELL_TEXT_BYTES + 200
    assert 0 <= budget.left <= left


def test_progress_bar_leaves_its_last_state() -> None:
    cell = CellOutputs([], OutputBudget())
    cell.add_text("stderr", "begin\n")
    for percent in range(101):
        cell.add_text("stderr", f"\r{percent} %")
    cell.add_text("stderr", "\n")
    assert text_of(cell) == "begin\n100 %\n"


def test_large_figure_is_replaced_by_a_sentence_and_small_ones_are_kept() -> None:
    cell = CellOutputs([], OutputBudget())
    cell.add_output(figure(CELL_RICH_BYTES + 1, output_type="execute_result", execution_count=3))
    cell.add_output(figure(10))
    large, small = cell.kept
    assert large["data"] == {"text/plain": "[An output of 4.2 MB was left out (image/png)]"}
    assert (large["output_type"], large["execution_count"]) == ("execute_result", 3)
    assert small["data"] == {"image/png": "x" * 10}


def test_display_that_is_updated_stays_within_the_limit() -> None:
    cell = CellOutputs([], OutputBudget())
    cell.add_output(figure(10))
    for _ in range(20):
        cell.replace(0, {"text/plain": "x" * (1 << 20)}, {})
    assert len(cell.kept[0]["data"]["text/plain"]) == 1 << 20
    cell.replace(0, {"text/plain": "x" * (5 << 20)}, {})
    assert "left out" in cell.kept[0]["data"]["text/plain"]


def test_cleared_output_gives_its_room_back() -> None:
    budget = OutputBudget()
    cell = CellOutputs([], budget)
    before = budget.left
    for _ in range(100):
        cell.add_output(figure(1 << 20))
        cell.clear()
    assert (cell.kept, budget.left) == ([], before)


def test_many_outputs_and_long_tracebacks_are_shortened() -> None:
    cell = CellOutputs([], OutputBudget())
    for _ in range(MAX_OUTPUTS + 7):
        cell.add_output(figure(1))
    cell.add_error(
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["x" * 10**6, "end"]}
    )
    cell.finish()
    assert len(cell.kept) == MAX_OUTPUTS + 2
    assert "7 further outputs left out" in text_of(cell)
    error = next(output for output in cell.kept if output["output_type"] == "error")
    assert error["traceback"][-1].endswith("end")
    assert len(json.dumps(error)) < 40_000


def test_all_cells_together_stay_within_the_limit() -> None:
    budget = OutputBudget()
    cells = [CellOutputs([], budget) for _ in range(100)]
    for cell in cells:
        cell.add_text("stdout", "x" * 10**6)
        cell.add_output(figure(10**6))
        cell.finish()
    kept = sum(len(json.dumps(cell.kept)) for cell in cells)
    assert kept < NOTEBOOK_BYTES + 100 * 20_000
    assert text_of(cells[-1]).startswith("xxx")
