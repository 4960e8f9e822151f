"""Reader of files that the job's programs write for the agent. Their content is not trusted."""

from __future__ import annotations

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any


def read_json_object(path: str, most_bytes: int) -> tuple[os.stat_result, dict[str, Any]] | None:
    """Read a file that must contain one JSON object; return its stat result and the object.

    Return None if the file is missing, larger than ``most_bytes``, not a regular file or not a JSON
    object.
    """
    try:
        # Do not wait for a pipe or follow a link.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(file, "rb") as content:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > most_bytes:
                return None
            document = json.loads(content.read(most_bytes))
    except (OSError, ValueError, RecursionError):  # the last: deeply nested brackets
        return None
    return (facts, document) if isinstance(document, dict) else None
