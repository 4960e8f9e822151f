"""Filter that makes the output of a job, which another user may have written, safe for a
terminal."""

from __future__ import annotations

import codecs
import re

_SEQUENCE = re.compile(
    r"(?P<shown>\x1b\[[0-9;:]*[ABCDGKm])"  # colours, and cursor movements of progress bars
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # another control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # a string: title, clipboard, hyperlink
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
_INCOMPLETE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
_MAX_INCOMPLETE_CHARACTERS = 4_096


class TerminalFilter:
    """Filter that removes control characters and escape sequences, except those for colours and
    progress bars."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._incomplete = ""

    def feed(self, chunk: bytes) -> bytes:
        """Return the text that can be shown now. The beginning of an incomplete sequence is kept
        for the next call."""
        text = self._incomplete + self._decoder.decode(chunk)
        self._incomplete = ""
        tail = _INCOMPLETE.search(text)
        if tail is not None and len(tail[0]) <= _MAX_INCOMPLETE_CHARACTERS:
            text, self._incomplete = text[: tail.start()], tail[0]
        return _SEQUENCE.sub(lambda match: match["shown"] or "", text).encode()
