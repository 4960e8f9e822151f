"""Tests of a notebook's display of the output of several ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aitne_train.notebook.display import FOLD_S, CellDisplay, Screen, format_ranks


class _Recorded(Screen):
    """A screen whose content tests compare."""

    def __init__(self) -> None:
        self.text = ""
        self.shown: list[tuple[str, Any, bool]] = []

    def write_text(self, stream: str, text: str) -> None:
        self.text += text

    def show_output(
        self, data: Mapping[str, Any], metadata: Mapping[str, Any], name: str, *, update: bool
    ) -> None:
        self.shown.append((name, data, update))


class _Display:
    def __init__(self, ranks: int) -> None:
        self.now = 0.0
        self.screen = _Recorded()
        self.display = CellDisplay(range(ranks), self.screen, lambda: self.now)

    def prints(self, rank: int, text: str, stream: str = "stdout") -> None:
        message = {"header": {"msg_type": "stream"}, "content": {"name": stream, "text": text}}
        self.display.queue_output(rank, message)

    def shows(
        self, rank: int, kind: str = "display_data", name: str | None = None, **data: str
    ) -> None:
        content = {"data": data, "metadata": {}, "transient": {"display_id": name} if name else {}}
        self.display.queue_output(rank, {"header": {"msg_type": kind}, "content": content})


@pytest.mark.parametrize(
    ("ranks", "text"), [((0, 1, 2, 7), "0-2,7"), ((3,), "3"), ((5, 4), "4-5"), ((0, 2), "0,2")]
)
def test_ranks_are_named_by_their_spans(ranks: tuple[int, ...], text: str) -> None:
    assert format_ranks(ranks) == text


def test_equal_lines_of_all_ranks_are_shown_once_and_at_once() -> None:
    shown = _Display(3)
    for rank in (2, 0, 1):
        shown.prints(rank, "epoch 1\n")
    shown.display.flush()
    assert shown.screen.text == "[0-2] epoch 1\n"


def test_a_line_waits_for_equal_ones_no_longer_than_a_moment() -> None:
    shown = _Display(3)
    shown.prints(0, "alone\n")
    shown.display.flush()
    assert shown.screen.text == ""
    shown.now = FOLD_S
    shown.display.flush()
    assert shown.screen.text == "[0] alone\n"


def test_different_lines_keep_the_order_of_each_rank() -> None:
    shown = _Display(2)
    shown.prints(0, "same\nzero\nend\n")
    shown.prints(1, "same\none\nend\n")
    shown.display.finish()
    assert shown.screen.text == "[0-1] same\n[0] zero\n[1] one\n[0-1] end\n"


def test_only_new_lines_are_shown() -> None:
    shown = _Display(1)
    shown.prints(0, "a\n")
    shown.display.flush()
    shown.prints(0, "b\n")
    shown.display.flush()
    assert shown.screen.text == "[0] a\n[0] b\n"


def test_a_progress_bar_is_one_line_that_is_updated_and_remains_once() -> None:
    shown = _Display(2)
    for percent in ("10%", "50%"):
        shown.now += 1
        for rank in (0, 1):
            shown.prints(rank, f"\r{percent}", "stderr")
        shown.display.flush()
    lines = [(data["text/plain"], update) for _, data, update in shown.screen.shown]
    assert lines == [("[0-1] 10%", False), ("[0-1] 50%", True)]
    for rank in (0, 1):
        shown.prints(rank, "\r100%\n", "stderr")
    shown.display.finish()
    assert shown.screen.text == "[0-1] 100%\n"
    assert shown.screen.shown[-1][1]["text/plain"] == ""


def test_a_line_without_end_is_shown_at_the_end() -> None:
    shown = _Display(1)
    shown.prints(0, "half")
    shown.display.finish()
    assert shown.screen.text == "[0] half\n"


def test_a_figure_keeps_its_place_among_the_lines_of_its_rank() -> None:
    shown = _Display(2)
    shown.prints(1, "before\n")
    shown.shows(1, **{"image/png": "x"})
    shown.prints(1, "after\n")
    shown.display.finish()
    assert shown.screen.text == "[1] before\n[1]\n[1] after\n"
    assert [data for _, data, _ in shown.screen.shown] == [{"image/png": "x"}]


def test_equal_figures_are_shown_once() -> None:
    shown = _Display(2)
    for rank in (0, 1):
        shown.shows(rank, **{"text/html": "<b>1</b>"})
    shown.display.flush()
    assert shown.screen.text == "[0-1]\n"
    assert len(shown.screen.shown) == 1


def test_an_updated_figure_replaces_its_own_rank_s_one() -> None:
    shown = _Display(2)
    for rank in (0, 1):
        shown.shows(rank, name="plot", **{"text/plain": f"first of {rank}"})
    shown.shows(1, "update_display_data", name="plot", **{"text/plain": "second of 1"})
    shown.display.finish()
    names = {data["text/plain"]: (name, update) for name, data, update in shown.screen.shown}
    assert names["second of 1"] == (names["first of 1"][0], True)
    assert names["first of 0"][0] != names["first of 1"][0]


def test_a_cleared_figure_is_replaced() -> None:
    shown = _Display(2)
    shown.shows(0, **{"text/plain": "old"})
    shown.display.queue_output(
        0, {"header": {"msg_type": "clear_output"}, "content": {"wait": True}}
    )
    shown.shows(0, **{"text/plain": "new"})
    shown.display.finish()
    (first, _, _), (second, data, update) = shown.screen.shown
    assert (second, data["text/plain"], update) == (first, "new", True)
    assert shown.screen.text == "[0]\n"


def test_lines_of_64_ranks_arrive_complete_and_in_order() -> None:
    shown = _Display(64)
    for rank in range(64):
        shown.prints(rank, "".join(f"rank {rank} line {number}\n" for number in range(1000)))
    shown.display.finish()
    lines = shown.screen.text.splitlines()
    for rank in (0, 31, 63):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] rank {rank} line {number}" for number in range(1000)]
    assert len(lines) == 64_000
