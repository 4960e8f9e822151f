"""Table of ranks as text and as HTML."""

from __future__ import annotations

import contextlib
import contextvars
import html
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from aitne_train.notebook.rank_groups import RankGroup

HEADINGS = ("Rank", "Node", "GPU", "Memory", "GPU memory", "Busy", "Age")


def build_rows(ranks: Sequence[Mapping[str, Any]], now: float | None = None) -> list[list[str]]:
    """Return the cells of the table, a row for each rank.

    Args:
        ranks: what the controller answers to ``ranks_request``.
        now: Unix time; None: the current time.
    """
    now = time.time() if now is None else now
    return [
        [
            str(rank["rank"]),
            rank["node"],
            rank["gpu"] or "-",
            _format_size(rank["memory"]),
            _format_size(rank["gpu_memory"]),
            "-" if rank["busy_s"] is None else _format_time(rank["busy_s"]),
            _format_time(now - rank["started_at"]),
        ]
        for rank in ranks
    ]


def format_text(ranks: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as text."""
    rows = [list(HEADINGS), *build_rows(ranks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def format_html(ranks: Sequence[Mapping[str, Any]]) -> str:
    """Return the table as HTML, with a caption and headings for screen readers."""
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in build_rows(ranks)
    )
    count = "1 rank" if len(ranks) == 1 else f"{len(ranks)} ranks"
    return (
        f"<table><caption>{count}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


class LiveTable:
    """Table of ranks that is updated while it is the last one shown.

    Args:
        group: the group whose ranks it shows.
        show: called with text and HTML of the table; the second argument is True for an update.
    """

    PERIOD_S = 2.0

    def __init__(self, group: RankGroup, show: Callable[[str, str, bool], None]) -> None:
        self._group = group
        self._show = show
        # An event would keep its lock if Interrupt ended ``stop`` half way.
        self._stop: SimpleQueue[None] = SimpleQueue()
        self._last = ""

    def start(self) -> None:
        """Show the table, and begin to update it."""
        self._refresh(update=False)
        # Output of a thread belongs to the cell whose context it has.
        run = contextvars.copy_context().run
        threading.Thread(
            target=run, args=(self._refresh_until_stopped,), name="aitne-ranks-table", daemon=True
        ).start()

    def stop(self) -> None:
        """End the updates; the table remains as it is."""
        self._stop.put(None)

    def _refresh_until_stopped(self) -> None:
        while True:
            with contextlib.suppress(Empty):
                self._stop.get(timeout=self.PERIOD_S)
                return
            if self._group.ended:
                return
            self._refresh(update=True)

    def _refresh(self, *, update: bool) -> None:
        from aitne_train.notebook.group_connection import RankAnswerError

        try:
            rows = self._group.link.ask_controller("ranks_request", {"memory": True})["ranks"]
        except RankAnswerError:
            return
        text = format_text(rows)
        if text != self._last:
            self._last = text
            self._show(text, format_html(rows), update)


def _format_size(value: int | None) -> str:
    if value is None:
        return "-"
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def _format_time(seconds: float) -> str:
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
