"""Limit of the output of a cell on one rank. Text beyond the limit is written to a file."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import IO, Any

TEXT_BYTES = 8 << 20
"""Text that all ranks together may send to the notebook for a cell."""
_LEAST_TEXT = 128 << 10
_MOST_TEXT = 2 << 20
RICH_BYTES = 32 << 20
"""Bytes of figures and tables that a rank may send for a cell."""
_MOST_FILE = 1 << 30
RICH = ("display_data", "execute_result", "update_display_data")


class OutputLimit:
    """Limit of the output of each cell on this rank.

    Args:
        rank: number of this rank.
        size: number of ranks of the group; the limit of text is divided among them.
        folder: folder for the files with the text beyond the limit.
    """

    def __init__(self, rank: int, size: int, folder: Path) -> None:
        self._rank = rank
        self._folder = folder
        self._most_text = min(_MOST_TEXT, max(_LEAST_TEXT, TEXT_BYTES // size))
        self._lock = threading.RLock()
        self._cell = 0
        self._text = self._rich = self._more = 0
        self._file: IO[bytes] | None = None
        self._path = ""
        self._failure = ""

    def begin_cell(self) -> None:
        """Reset the counters for a new cell."""
        with self._lock:
            self._close_file()
            self._cell += 1
            self._text = self._rich = self._more = 0
            self._path = self._failure = ""

    def end_cell(self) -> dict[str, Any] | None:
        """Return the number of bytes of the cell's text beyond the limit (``bytes``), the path of
        the file that contains them (``path``), and why they could not be written (``failure``,
        empty if they were). Return None if the text did not exceed the limit."""
        with self._lock:
            self._close_file()
            if not self._more:
                return None
            return {"bytes": self._more, "path": self._path, "failure": self._failure}

    def limit_text(self, text: str) -> str:
        """Count printed text, and return the part that is within the limit. The rest is written to
        the file."""
        with self._lock:
            left = self._most_text - self._text
            if left >= len(text) * 4:  # no character has more bytes
                self._text += len(text.encode("utf-8", "replace"))
                return text
            content = text.encode("utf-8", "replace")
            self._text += len(content)
            if len(content) <= left:
                return text
            cut = content.rfind(b"\n", 0, max(0, left)) + 1  # after a whole line
            self._write_excess(content[cut:])
            return content[:cut].decode()

    def limit_rich(self, content: dict[str, Any]) -> dict[str, Any]:
        """Count the content of a rich output (figure, table), and return it unchanged or, beyond
        the limit, with a sentence in place of its data."""
        size = sum(
            len(each) if isinstance(each, (str, bytes)) else len(json.dumps(each, default=str))
            for each in content.get("data", {}).values()
        )
        with self._lock:
            self._rich += size
            if self._rich <= RICH_BYTES:
                return content
        sentence = (
            f"(output of {size >> 20} MiB is not shown: a rank can show {RICH_BYTES >> 20} MiB of figures and "
            "tables in a cell. Save it to a file instead.)"
        )
        return {**content, "data": {"text/plain": sentence}, "metadata": {}}

    def _write_excess(self, content: bytes) -> None:
        self._more += len(content)
        if self._failure or self._more > _MOST_FILE:
            self._failure = self._failure or f"it has {_MOST_FILE >> 30} GiB, and the rest is lost"
            return
        try:
            if self._file is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = self._folder / f"cell-{self._cell}-rank-{self._rank}.txt"
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                self._file = os.fdopen(os.open(path, flags, 0o600), "wb")
                self._path = str(path)
            self._file.write(content)
        except OSError as error:
            self._failure = f"it cannot be written: {error.strerror}"

    def _close_file(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._failure = self._failure or f"it cannot be written: {error.strerror}"
            self._file = None
