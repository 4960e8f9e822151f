"""Files of the job's folder that changed while the job ran."""

from __future__ import annotations

import heapq
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Collection
    from typing import Any

MOST_FILES = 1_000
_LONGEST_S = 0.5
"""Time limit of the search in seconds; the ended job waits for the result."""
_MOST_LOOKED_AT = 50_000
_MOST_NAMES = 80_000
"""Maximum number of characters in all names together."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules"})


def stamps(folder: str, since: float) -> set[tuple[float, str, int]]:
    """Return the files that ``look`` would return now: modification time, path and size of each.

    Called before the job starts, so that files that the job was given can be omitted later.
    """
    return set(_newest(folder, since, (), most=_MOST_LOOKED_AT)[0])


def look(
    folder: str, since: float, given: Collection[tuple[float, str, int]] = ()
) -> dict[str, Any]:
    """Return the newest files in a folder, in the format of ``core.models.snapshot.WrittenFiles``.

    Links, and files and folders whose names begin with a dot, are omitted.

    Args:
        folder: the folder, which is searched with its subfolders.
        since: earliest modification time, in seconds since 1970.
        given: result of ``stamps``; files that have not changed since are omitted.
    """
    newest, cut = _newest(folder, since, given, most=MOST_FILES)
    files, length = [], 0
    for modified, path, size in sorted(newest, reverse=True):
        length += len(path)
        if length > _MOST_NAMES:
            cut = True
            break
        files.append({"path": _clean(path), "size_bytes": size, "modified_at": _time(modified)})
    return {"schema": 1, "folder": _clean(folder), "files": files, "cut": cut}


def _newest(
    folder: str, since: float, given: Collection[tuple[float, str, int]], *, most: int
) -> tuple[list[tuple[float, str, int]], bool]:
    """Return the ``most`` newest files of ``folder``, and whether there may be more, because of
    this limit or because the search took too long. Arguments are those of ``look``."""
    newest: list[tuple[float, str, int]] = []
    deadline, looked_at, late, more = time.monotonic() + _LONGEST_S, 0, False, False
    waiting = [""]
    while waiting and not late:
        below = waiting.pop(0)
        try:
            entries = os.scandir(os.path.join(folder, below))
        except OSError:
            continue
        with entries:
            for entry in entries:
                looked_at += 1
                if looked_at > _MOST_LOOKED_AT or time.monotonic() > deadline:
                    late = True
                    break
                if entry.name.startswith("."):
                    continue
                path = os.path.join(below, entry.name)
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _PASSED_OVER:
                            waiting.append(path)
                        continue
                    if not entry.is_file(follow_symlinks=False):
                        continue
                    facts = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                found = (facts.st_mtime, path, facts.st_size)
                if facts.st_mtime >= since and found not in given:
                    heapq.heappush(newest, found)
                    if len(newest) > most:
                        heapq.heappop(newest)
                        more = True
    return newest, late or more


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
