"""Limits of the outputs in an executed notebook, for each cell and for all cells together.

If a cell prints more than its limit, the beginning and the end of the text are kept. Outputs are in
the notebook format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

CELL_TEXT_BYTES = 256 << 10
"""Printed text of a cell that is kept; half of it is the beginning, half the end."""
CELL_RICH_BYTES = 4 << 20
"""Figures, tables and other values of a cell that are kept."""
NOTEBOOK_BYTES = 16 << 20
"""Outputs of all cells together that are kept."""
RESERVE_BYTES = 8 << 10
"""Printed text that each cell may keep even if the notebook has reached its limit."""
TRACEBACK_CHARACTERS = 32 << 10
MAX_OUTPUTS = 500
"""Maximum number of outputs of a cell."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")


class OutputBudget:
    """Number of bytes that remain for the outputs of one notebook."""

    def __init__(self, total_bytes: int = NOTEBOOK_BYTES) -> None:
        self.left = total_bytes

    def take_bytes(self, count: int) -> bool:
        """Subtract ``count`` bytes and return True. If fewer remain, change nothing and return
        False."""
        if count > self.left:
            return False
        self.left -= count
        return True


class CellOutputs:
    """Outputs of one running cell, to which the limits are applied.

    Args:
        kept: the cell's list of outputs in the notebook; methods change it in place.
        budget: remaining bytes of the notebook.
    """

    def __init__(self, kept: list[Any], budget: OutputBudget) -> None:
        self.kept = kept
        self._budget = budget
        self._head = RESERVE_BYTES
        half = CELL_TEXT_BYTES // 2 - RESERVE_BYTES
        if budget.take_bytes(2 * half):
            # What remains is given back when the cell has ended.
            self._head, self._granted = half, 2 * half
        else:
            self._granted = 0
        self._tail_limit = self._head
        self._text_bytes = 0
        self._tail: list[tuple[str, str]] = []
        self._tail_bytes = 0
        self._omitted_bytes = 0
        self._rich_bytes = 0
        self._omitted_outputs = 0

    def add_text(self, name: str, text: str) -> str:
        """Add printed text of the stream ``name`` (stdout or stderr).

        Return the part of the text that is kept for certain, because it is in the first half of the
        cell's limit. Whether the rest is kept depends on later output.
        """
        size = len(text.encode("utf-8", "replace"))
        if not self._tail and self._text_bytes + size <= self._head:
            self._append_to_stream(name, text)
            self._text_bytes += size
            return text
        taken = ""
        if not self._tail:
            room = max(0, self._head - self._text_bytes)
            taken = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
            if taken:
                self._append_to_stream(name, taken)
            self._text_bytes = self._head
            text = text[len(taken) :]
        self._push_text(name, text)
        return taken

    def add_output(self, output: dict[str, Any]) -> dict[str, Any]:
        """Add a value, a figure or another output with data, and return the added output. If it
        exceeds a limit, its data are replaced by a sentence. Outputs after the first
        ``MAX_OUTPUTS`` are only counted."""
        size = estimate_size(output)
        if len(self.kept) >= MAX_OUTPUTS:
            self._omitted_outputs += 1
            return output
        if self._rich_bytes + size > CELL_RICH_BYTES or not self._budget.take_bytes(size):
            output = _make_omission_note(output, size)
        else:
            self._rich_bytes += size
        self.kept.append(output)
        return output

    def replace(self, index: int, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Replace the data of the output with this index in ``kept``, when a program updates a
        display. Data beyond the limit are replaced by a sentence."""
        old = self.kept[index]
        new = {**old, "data": dict(data), "metadata": dict(metadata)}
        more = estimate_size(new) - estimate_size(old)
        if more > 0 and (
            self._rich_bytes + more > CELL_RICH_BYTES or not self._budget.take_bytes(more)
        ):
            new = {**new, **_make_omission_note(new, estimate_size(new))}
        else:
            self._rich_bytes += more
            self._budget.left += max(0, -more)
        old.update(new)

    def add_error(self, output: dict[str, Any]) -> None:
        """Add an exception. A traceback of more than ``TRACEBACK_CHARACTERS`` characters is
        shortened in the middle."""
        self._flush_tail()
        frames = [str(frame) for frame in output.get("traceback") or ()]
        text = "\n".join(frames)
        if len(text) > TRACEBACK_CHARACTERS:
            half = TRACEBACK_CHARACTERS // 2
            omitted = len(text) - 2 * half
            frames = [text[:half], f"[{omitted} characters left out]", text[-half:]]
        value = str(output.get("evalue", ""))[:TRACEBACK_CHARACTERS]
        self.kept.append({**output, "evalue": value, "traceback": frames})

    def clear(self) -> None:
        """Remove all outputs, when the program clears its output."""
        freed = sum(estimate_size(output) for output in self.kept if "data" in output)
        self._budget.left += min(freed, self._rich_bytes)
        self.kept.clear()
        self._tail.clear()
        self._rich_bytes = self._text_bytes = self._tail_bytes = 0
        self._omitted_bytes = self._omitted_outputs = 0

    def finish(self) -> int:
        """Add the end of the printed text, and notes about omitted text and outputs. Return the
        number of printed bytes that ``text`` did not return."""
        later = self._omitted_bytes + self._tail_bytes
        self._flush_tail()
        if self._omitted_outputs:
            self._append_to_stream(
                "stderr",
                f"[{self._omitted_outputs} further outputs left out: a cell keeps {MAX_OUTPUTS}]\n",
            )
            self._omitted_outputs = 0
        self._budget.left += max(0, self._granted - self._text_bytes)
        self._granted = 0
        return later

    def _flush_tail(self) -> None:
        if not self._tail:
            return
        if self._omitted_bytes:
            self._append_to_stream(
                "stderr", f"\n[{format_size(self._omitted_bytes)} of output left out]\n"
            )
        for name, text in self._tail:
            self._append_to_stream(name, text)
        self._text_bytes += self._tail_bytes
        self._tail.clear()
        self._tail_bytes = self._omitted_bytes = 0

    def _push_text(self, name: str, text: str) -> None:
        encoded = text.encode("utf-8", "replace")
        size = len(encoded)
        if size > self._tail_limit:
            text = encoded[-self._tail_limit :].decode("utf-8", "ignore")
            size = len(text.encode("utf-8"))
            self._omitted_bytes += len(encoded) - size
        self._tail.append((name, text))
        self._tail_bytes += size
        while self._tail_bytes > self._tail_limit and len(self._tail) > 1:
            gone = len(self._tail.pop(0)[1].encode("utf-8", "replace"))
            self._tail_bytes -= gone
            self._omitted_bytes += gone

    def _append_to_stream(self, name: str, text: str) -> None:
        last = self.kept[-1] if self.kept else None
        if last is None or last.get("output_type") != "stream" or last.get("name") != name:
            self.kept.append(_make_stream_output(name, text))
            return
        if "\r" not in text and not last["text"].endswith("\r"):
            last["text"] += text
            return
        # A progress bar writes each of its states over the one before.
        start = last["text"].rfind("\n") + 1
        last["text"] = last["text"][:start] + _OVERWRITTEN.sub("", last["text"][start:] + text)


def estimate_size(output: Mapping[str, Any]) -> int:
    """Return the approximate size of an output's data in the notebook's file, in bytes."""
    return sum(
        len(value) if isinstance(value, str) else len(json.dumps(value, default=str))
        for value in (output.get("data") or {}).values()
    )


def format_size(count: int) -> str:
    """Return a number of bytes as text with a decimal unit, such as ``1.5 MB``."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _make_stream_output(name: str, text: str) -> dict[str, Any]:
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text)
    return {"output_type": "stream", "name": name, "text": text}


def _make_omission_note(output: Mapping[str, Any], size: int) -> dict[str, Any]:
    kinds = ", ".join(sorted(output.get("data") or {}))
    sentence = f"[An output of {format_size(size)} was left out ({kinds[:200]})]"
    kept = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": sentence}}
    return {**kept, "output_type": output.get("output_type", "display_data")} | (
        {"execution_count": output.get("execution_count")}
        if output.get("output_type") == "execute_result"
        else {}
    )
