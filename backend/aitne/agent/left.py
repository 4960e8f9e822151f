"""Reads what the job's programs leave for their agent: any of them may have put anything there."""

from __future__ import annotations

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any


def read(path: str, most_bytes: int) -> tuple[os.stat_result, dict[str, Any]] | None:
    """A file's facts and the one JSON object in it; None: it is not there, too large, or nothing such."""
    try:
        # A pipe must not be waited for, and a link leads elsewhere.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(file, "rb") as content:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > most_bytes:
                return None
            found = json.loads(content.read(most_bytes))
    except (OSError, ValueError, RecursionError):  # the last: brackets in brackets in brackets
        return None
    return (facts, found) if isinstance(found, dict) else None
