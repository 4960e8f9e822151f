"""Lines of a job's log as readable text, with their positions."""

from __future__ import annotations

import re

from pydantic import Field

from aitne.core.models.base import Frozen

MOST_IN_LINE = 300
"""Maximum number of characters of a line; further characters are replaced by an ellipsis."""
_LONGEST_BYTES = 64 << 10
"""Maximum number of bytes at the end of a line that are read, because a progress bar may rewrite
one line for hours.
"""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class LogLine(Frozen):
    """One line of a job's log, with its position."""

    text: str = Field(description="The line without escape sequences, shortened if it is long.")
    offset: int = Field(description="Offset in the log of the line's first byte.")


def split_log_lines(data: bytes, offset: int) -> list[LogLine]:
    """Return the lines of ``data``, a part of a log that begins at the byte ``offset`` of the log.

    An incomplete first line is omitted unless it is the only one.
    """
    pieces = data.split(b"\n")
    lines = []
    for piece in pieces:
        lines.append(LogLine(text=clean_line(piece), offset=offset))
        offset += len(piece) + 1
    if lines[0].offset > 0 and len(lines) > 1:
        del lines[0]
    return lines


def clean_line(line: bytes) -> str:
    """Return one line of a log as text without escape sequences and control characters.

    If a progress bar has rewritten the line, only its last version is returned.
    """
    text = _ESCAPES.sub("", line[-_LONGEST_BYTES:].decode("utf-8", "replace"))
    last = text.rstrip("\r").rpartition("\r")[2]
    clean = "".join(letter if letter.isprintable() else " " for letter in last).rstrip()
    return clean if len(clean) <= MOST_IN_LINE else f"{clean[: MOST_IN_LINE - 1]}…"
