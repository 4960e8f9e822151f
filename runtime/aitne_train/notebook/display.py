"""Display of what ranks print and show: only what is new, with equal output of several ranks once.

Each rank's output keeps its order. Lines and figures that ranks produce at about the same time and
that are equal are shown once, as ``[0-7] epoch 1``. Unfinished lines, such as progress bars, are
shown in one area that is updated.
"""

from __future__ import annotations

import hashlib
import html
import json
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FOLD_S = 0.5
"""Seconds for which a line waits for equal lines of other ranks."""
_LIVE_S = 0.25
_MOST_LIVE = 200
_MOST_LIVE_LINES = 64


def format_ranks(ranks: Iterable[int]) -> str:
    """Return numbers of ranks as text, such as ``0-3,7``."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def describe_places(places: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Return one line for each group of ranks that execute the same line of the cell.

    ``places`` are the answers of ``GroupConnection.locate_ranks``, by rank.
    """
    groups: dict[str, list[int]] = {}
    for rank, place in places.items():
        if place["line"] is None:
            text = "not in the cell"
        else:
            text = f"line {place['line']}: {place['text']}"
            if place["called"]:
                text += f" (in {place['called']})"
        groups.setdefault(text, []).append(rank)
    return [f"[{format_ranks(ranks)}] {text}" for text, ranks in groups.items()]


@dataclass(frozen=True)
class _Item:
    """One output of a rank: a line of text, a rich output (figure, table) or ``clear_output``."""

    key: tuple[str, str]
    """Kind (``stdout``, ``stderr``, ``rich``, ``update``, ``clear``) and text. Outputs of several
    ranks with the same key are shown once. The text of rich outputs is a hash of their data."""
    at: float
    """Time of arrival, in seconds of the display's clock."""
    message: Mapping[str, Any] | None = None
    """Content of the message of a rich output; None for other kinds."""


class Screen:
    """Output area of the cell that runs in this kernel."""

    def write_text(self, stream: str, text: str) -> None:
        """Print text to ``stdout`` or ``stderr``."""
        target = sys.stderr if stream == "stderr" else sys.stdout
        target.write(text)
        target.flush()

    def show_output(
        self, data: Mapping[str, Any], metadata: Mapping[str, Any], name: str, *, update: bool
    ) -> None:
        """Display a rich output.

        Args:
            data: the output by MIME type.
            metadata: its metadata by MIME type.
            name: display ID of the output.
            update: replace the output that was displayed under ``name``.
        """
        from IPython.display import publish_display_data

        publish_display_data(
            data=dict(data), metadata=dict(metadata), transient={"display_id": name}, update=update
        )


class CellDisplay:
    """Output of one cell on several ranks.

    Args:
        ranks: the ranks that execute the cell.
        screen: area in which it is shown; None: the output area of the running cell.
        clock: returns the current time in seconds.
    """

    def __init__(
        self,
        ranks: Iterable[int],
        screen: Screen | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waiting: dict[int, deque[_Item]] = {rank: deque() for rank in ranks}
        self._partial: dict[tuple[int, str], str] = {}
        self._screen = screen or Screen()
        self._clock = clock
        self._fronts: dict[tuple[str, str], list[int]] = {}
        self._name = uuid.uuid4().hex
        self._shown: dict[int, str] = {}
        self._clear: set[int] = set()
        self._count = 0
        self._live_text = ""
        self._live_shown = False
        self._live_at = 0.0
        self.printed: list[str] = []
        """What was printed, for a page that was closed meanwhile."""

    # --- input -----------------------------------------------------------------------------------

    def queue_output(self, rank: int, message: Mapping[str, Any]) -> None:
        """Queue the output in a message of the rank ``rank``. ``flush`` shows it."""
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream":
            self._add_text(rank, content["name"], content["text"])
        elif kind in ("display_data", "update_display_data"):
            name = (content.get("transient") or {}).get("display_id")
            data = content["data"]
            if kind == "update_display_data":
                label, text = "update", f"{rank} {name}"
            else:
                content_bytes = json.dumps(data, sort_keys=True, default=str).encode()
                label, text = "rich", hashlib.sha256(content_bytes).hexdigest()
            self._add_item(rank, _Item((label, text), self._clock(), content))
        elif kind == "clear_output":
            self._add_item(rank, _Item(("clear", ""), self._clock()))

    def print_line(self, text: str, stream: str = "stderr") -> None:
        """Print a line that does not come from a rank, without delay."""
        self._print_text(stream, f"{text}\n")

    def _add_text(self, rank: int, stream: str, text: str) -> None:
        text = self._partial.pop((rank, stream), "") + text
        *lines, rest = text.split("\n")
        for line in lines:
            self._add_item(rank, _Item((stream, _apply_carriage_returns(line)), self._clock()))
        if rest:
            self._partial[rank, stream] = _apply_carriage_returns(rest, keep=True)

    def _add_item(self, rank: int, item: _Item) -> None:
        waiting = self._waiting[rank]
        waiting.append(item)
        if len(waiting) == 1:
            self._fronts.setdefault(item.key, []).append(rank)

    # --- output ----------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """Time (of the clock) at which ``flush`` must be called next; None if no output waits."""
        times = [items[0].at + FOLD_S for items in self._waiting.values() if items]
        if self._partial or self._live_text:
            times.append(self._live_at + _LIVE_S)
        return min(times, default=None)

    def flush(self, *, all_items: bool = False) -> None:
        """Show the queued output that all ranks have produced, or that has waited for ``FOLD_S``
        seconds. With ``all_items``, show all queued output."""
        now = self._clock()
        text: list[str] = []
        stream = ""
        while self._fronts:
            key = self._choose_next(now, all_items=all_items)
            if key is None:
                break
            ranks = self._fronts.pop(key)
            items = [self._waiting[rank].popleft() for rank in ranks]
            for rank in ranks:
                if self._waiting[rank]:
                    front = self._waiting[rank][0].key
                    self._fronts.setdefault(front, []).append(rank)
            if key[0] in ("stdout", "stderr"):
                if key[0] != stream:
                    self._print_text(stream, "".join(text))
                    text, stream = [], key[0]
                text.append(f"[{format_ranks(ranks)}] {key[1]}\n")
            elif key[0] == "clear":
                self._clear.update(ranks)
            else:
                self._print_text(stream, "".join(text))
                text = []
                self._show_rich(key[0], ranks, items[0].message or {})
        self._print_text(stream, "".join(text))
        self._show_live(now, at_once=all_items)

    def finish(self) -> None:
        """Show all remaining output, including unfinished lines."""
        for (rank, stream), rest in sorted(self._partial.items()):
            self._add_item(rank, _Item((stream, _apply_carriage_returns(rest)), self._clock()))
        self._partial.clear()
        self.flush(all_items=True)

    def _choose_next(self, now: float, *, all_items: bool) -> tuple[str, str] | None:
        """Return the key of the output to show next, or None if all queued output must still wait.

        The oldest output is shown if every rank has produced it, if it has waited for ``FOLD_S``
        seconds, or if every rank has some other output queued.
        """
        key = min(self._fronts, key=lambda key: self._waiting[self._fronts[key][0]][0].at)
        item = self._waiting[self._fronts[key][0]][0]
        everywhere = len(self._fronts[key]) == len(self._waiting)
        if everywhere or all_items or now - item.at >= FOLD_S:
            return key
        complete = sum(len(ranks) for ranks in self._fronts.values()) == len(self._waiting)
        return key if complete else None

    def _print_text(self, stream: str, text: str) -> None:
        if text:
            self.printed.append(text)
            self._screen.write_text(stream, text)

    def _show_rich(self, label: str, ranks: list[int], content: Mapping[str, Any]) -> None:
        data, metadata = content.get("data", {}), content.get("metadata") or {}
        name = (content.get("transient") or {}).get("display_id")
        if label == "update":
            self._screen.show_output(data, metadata, f"{self._name}-{ranks[0]}-{name}", update=True)
            return
        if len(ranks) == 1 and ranks[0] in self._clear and ranks[0] in self._shown:
            self._clear.discard(ranks[0])
            self._screen.show_output(data, metadata, self._shown[ranks[0]], update=True)
            return
        self._clear.difference_update(ranks)
        self._count += 1
        shown = f"{self._name}-{ranks[0]}-{name}" if name else f"{self._name}-{self._count}"
        for rank in ranks:
            self._shown[rank] = shown
        self._print_text("stdout", f"[{format_ranks(ranks)}]\n")
        self._screen.show_output(data, metadata, shown, update=False)

    def _show_live(self, now: float, *, at_once: bool) -> None:
        if now - self._live_at < _LIVE_S and not at_once:
            return
        groups: dict[str, list[int]] = {}
        for (rank, _), rest in sorted(self._partial.items()):
            groups.setdefault(_apply_carriage_returns(rest)[:_MOST_LIVE], []).append(rank)
        lines = [f"[{format_ranks(ranks)}] {text}" for text, ranks in groups.items()]
        if len(lines) > _MOST_LIVE_LINES:
            lines = [*lines[:_MOST_LIVE_LINES], f"… {len(lines) - _MOST_LIVE_LINES} more"]
        text = "\n".join(lines)
        if text == self._live_text:
            return
        self._live_at, self._live_text = now, text
        data = {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>" if text else ""}
        self._screen.show_output(data, {}, f"{self._name}-live", update=self._live_shown)
        self._live_shown = True


def _apply_carriage_returns(line: str, *, keep: bool = False) -> str:
    """Return the part of a line that remains visible in a terminal: the text after the last
    carriage return.

    Carriage returns at the end of the line do not count. With ``keep``, one of them is preserved,
    so that later text replaces the line.
    """
    ended = line.endswith("\r")
    shown = line.rstrip("\r").rpartition("\r")[2]
    return shown + "\r" if keep and ended else shown
