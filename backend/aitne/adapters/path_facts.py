"""Inspection of files and folders with the rights of this process, such that a file system that
hangs does not block it.

A file system whose server is unreachable blocks its callers, perhaps forever, and a process that
sleeps in the kernel cannot be ended. So each file system is accessed by a thread of its own, which
is abandoned after a timeout; while it hangs, no second thread is started for the same file system.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

from aitne.adapters.storage._folder_facts import make_absent_facts
from aitne.adapters.storage._mounts import Mounts
from aitne.core.models.storage_area import NO_ANSWER, Area, AreaFacts, PathFacts
from aitne.core.ports.storage_system import Storage

LIMIT_S = 6.0
_MOUNTS = Mounts()
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_MOST_REFS = 4 << 20

T = TypeVar("T")
Task = tuple[str, Callable[[], T]]
_Result = tuple[int, T | None, Exception | None]
"""Index of a task, and its result or the exception that it raised."""


class TimeoutExecutor:
    """Executor that runs tasks on file systems in threads and abandons those that take longer than
    ``limit_s`` seconds. It is thread-safe.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._hanging: dict[str, Thread] = {}
        self._lock = Lock()

    def gather(self, tasks: Sequence[Task[T]]) -> list[T | None]:
        """Run tasks and return their results in the same order; None for each task that did not end
        in time because its file system hangs.

        Args:
            tasks: pairs of a key, which identifies a file system, and a callable. Tasks with the
                same key run one after another, tasks with different keys concurrently.

        Raises:
            Exception: the first exception of a task, after all tasks have ended or timed out.
        """
        results: list[T | None] = [None] * len(tasks)
        failure: Exception | None = None
        queue: SimpleQueue[_Result[T]] = SimpleQueue()
        threads = self._start_threads(tasks, queue)
        pending = sum(1 for key, _ in tasks if key in threads)
        until = time.monotonic() + self._limit_s
        while pending:
            try:
                number, result, error = queue.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            results[number] = result
            failure = failure or error
            pending -= 1
        if pending:
            with self._lock:
                self._hanging.update(
                    {k: thread for k, thread in threads.items() if thread.is_alive()}
                )
        if failure is not None:
            raise failure
        return results

    def _start_threads(
        self, tasks: Sequence[Task[T]], queue: SimpleQueue[_Result[T]]
    ) -> dict[str, Thread]:
        by_key: dict[str, list[tuple[int, Callable[[], T]]]] = {}
        for number, (key, task) in enumerate(tasks):
            by_key.setdefault(key, []).append((number, task))
        threads = {}
        for key, key_tasks in by_key.items():
            with self._lock:
                hangs = key in self._hanging and self._hanging[key].is_alive()
                if not hangs:
                    self._hanging.pop(key, None)
            if not hangs:
                # A daemon: the process may end while it hangs.
                thread = Thread(
                    target=_run_tasks, args=(key_tasks, queue), name=f"look {key}", daemon=True
                )
                thread.start()
                threads[key] = thread
        return threads


def read_areas(
    executor: TimeoutExecutor, storages: Mapping[str, Storage], areas: Sequence[Area], user: str
) -> list[AreaFacts]:
    """Return size, quota and other facts about each storage area, in the order of ``areas``. A file
    system that does not answer is reported in ``problem``.

    Args:
        executor: executor, which limits the time.
        storages: storage adapters by name.
        areas: storage areas.
        user: name of the user whose quota is returned.
    """
    tasks = [
        (find_mount_point(area.path), partial(_read_area, storages, area, user)) for area in areas
    ]
    return [
        facts or make_absent_facts(area, f"The file system of {area.path} does not answer.")
        for area, facts in zip(areas, executor.gather(tasks), strict=True)
    ]


def read_paths(executor: TimeoutExecutor, paths: Sequence[str]) -> list[PathFacts]:
    """Return type, size and other facts about the file or folder at each path, in the order of
    ``paths``. A file system that does not answer is reported in ``problem``.
    """
    tasks = [(find_mount_point(path), partial(path_facts, path)) for path in paths]
    return [
        facts or PathFacts(path=path, problem=NO_ANSWER)
        for path, facts in zip(paths, executor.gather(tasks), strict=True)
    ]


def path_facts(path: str) -> PathFacts:
    """Return type, size and other facts about the file or folder at ``path``, following links.
    Never raises; blocks if the file system hangs.
    """
    if not path.startswith("/") or "\0" in path:
        return PathFacts(path=path, problem="it is not an absolute path")
    try:
        real = os.path.realpath(path, strict=True)
        facts = os.stat(real)
    except OSError as error:
        return PathFacts(path=path, problem=error.strerror or str(error))
    except ValueError:
        return PathFacts(path=path, problem="no file can have such a name")
    folder, file = stat.S_ISDIR(facts.st_mode), stat.S_ISREG(facts.st_mode)
    enter = os.X_OK if folder else 0
    readable = os.access(real, os.R_OK | enter)
    return PathFacts(
        path=path,
        real_path=real,
        kind="folder" if folder else "file" if file else "other",
        readable=readable,
        writable=os.access(real, os.W_OK | enter),
        size_bytes=facts.st_size if file else None,
        mtime_ns=facts.st_mtime_ns,
        commit=_read_git_commit(Path(real) / ".git") if folder else None,
        problem=None if readable else "it is not readable",
    )


def _read_git_commit(git: Path) -> str | None:
    """Return the hash of the commit that is checked out, read from git's own files, or None if
    ``git`` is not a readable ``.git`` folder.

    The commit of a branch is in a file of its own, or in a line of the file ``packed-refs``.
    """
    try:
        if not git.is_dir():
            return None
        head = _first_bytes(git / "HEAD").strip()
        if not head.startswith("ref: refs/"):
            return head if _COMMIT.fullmatch(head) else None
        name = head.removeprefix("ref: ")
        if ".." in name:
            return None
        try:
            commit = _first_bytes(git / name).strip()
        except OSError:
            packed = _first_bytes(git / "packed-refs").splitlines()
            commit = next((line.split(" ")[0] for line in packed if line.endswith(f" {name}")), "")
    except (OSError, ValueError):  # ValueError: the branch's name contains NUL
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def _first_bytes(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
        return file.read(_MOST_REFS).decode("utf-8", "replace")


def find_mount_point(path: str) -> str:
    """Return the mount point of the file system that contains ``path``. Only the path's text is
    compared with the list of mounts, so this never blocks.
    """
    try:
        mount = _MOUNTS.find_mount(path)
    except OSError:
        mount = None
    return "/" if mount is None else mount.point


def _read_area(storages: Mapping[str, Storage], area: Area, user: str) -> AreaFacts:
    storage = storages.get(area.adapter)
    if storage is None:
        names = ", ".join(sorted(storages)) or "none"
        return make_absent_facts(
            area, f"Its storage adapter {area.adapter} is not in use here ({names})."
        )
    try:
        return storage.read_area(area, user=user)
    except Exception as error:  # noqa: BLE001 - a plug-in's adapter; the others continue
        return make_absent_facts(
            area, f"The storage adapter {area.adapter} failed: {type(error).__name__}."
        )


def _run_tasks(tasks: list[tuple[int, Callable[[], T]]], queue: SimpleQueue[_Result[T]]) -> None:
    for number, task in tasks:
        try:
            queue.put((number, task(), None))
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
            queue.put((number, None, error))
