"""Log of a job that runs a notebook."""

from __future__ import annotations

import sys


class JobLog:
    """Writer of the job's log (standard output): text that cells print, and separate lines about
    the notebook."""

    def __init__(self) -> None:
        self._in_line = False

    def write(self, text: str) -> None:
        """Write text that a cell prints."""
        if text:
            # A lone surrogate has no form in UTF-8.
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
            self._in_line = not text.endswith("\n")

    def write_line(self, text: str) -> None:
        """Write a line about the notebook."""
        self.write(("\n" if self._in_line else "") + f"{text}\n")
