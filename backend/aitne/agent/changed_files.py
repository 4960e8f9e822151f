"""Files of the job's folder that changed while the job ran."""

from __future__ import annotations

import heapq
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any

MOST_FILES = 1_000
_LONGEST_S = 0.5
"""Time limit of the search in seconds; the ended job waits for the result."""
_MOST_LOOKED_AT = 50_000
_MOST_NAMES = 80_000
"""Maximum number of characters in all names together."""
_PASSED_OVER = frozenset({"__pycache__", "node_modules"})


def read_folder_time(folder: str) -> float | None:
    """Return the present time by the clock of the folder's file system, in seconds since 1970; None
    if no file can be created there.

    The clock of a file server differs from the node's, and only its own tells whether a file was
    changed before the job or by it.
    """
    try:
        file = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError:  # also a file system, such as NFS, that has no files without a name
        path = os.path.join(folder, f".aitne-{os.urandom(8).hex()}")
        try:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            os.unlink(path)
        except OSError:
            return None
    try:
        return os.fstat(file).st_ctime
    except OSError:
        return None
    finally:
        os.close(file)


def list_written_files(folder: str, since: float) -> dict[str, Any]:
    """Return the newest files in a folder, in the format of ``core.models.job_snapshot.WrittenFiles``.

    Links, and files and folders whose names begin with a dot, are omitted.

    Args:
        folder: the folder, which is searched with its subfolders.
        since: earliest time of the last change, in seconds since 1970. It is compared with
            ``st_ctime``, which no program can set: a copy may keep the old ``st_mtime``.
    """
    newest, cut = _list_newest(folder, since)
    files, length = [], 0
    for modified, path, size in sorted(newest, reverse=True):
        length += len(path)
        if length > _MOST_NAMES:
            cut = True
            break
        files.append(
            {
                "path": _replace_invalid_bytes(path),
                "size_bytes": size,
                "modified_at": _format_time(modified),
            }
        )
    return {"schema": 1, "folder": _replace_invalid_bytes(folder), "files": files, "cut": cut}


def _list_newest(folder: str, since: float) -> tuple[list[tuple[float, str, int]], bool]:
    """Return the newest files of ``folder`` (modification time, path and size), and whether there
    may be more, because of the limits. Arguments are those of ``list_written_files``."""
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
                if facts.st_ctime >= since:
                    heapq.heappush(newest, found)
                    if len(newest) > MOST_FILES:
                        heapq.heappop(newest)
                        more = True
    return newest, late or more


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _replace_invalid_bytes(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
