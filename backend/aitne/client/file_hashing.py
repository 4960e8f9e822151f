"""Computation of the SHA-256 of many files with all cores.

Threads suffice: hashing and reading release the interpreter lock, and a small file costs a few
system calls. Large files come first, each in a batch of its own, the largest before all others, so
that no core still reads one of them when the others are idle; small files are read in batches.
"""

from __future__ import annotations

import hashlib
import os
import queue
import stat
import threading

from aitne.client.dataset_folder_scan import (
    CHANGED,
    REFUSED,
    TreeProblem,
    make_stamp,
    make_unreadable_problem,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from aitne.client.dataset_folder_scan import Stamp

    Known = Mapping[bytes, tuple[Stamp, str]]

BUFFER = 1 << 20
LARGE = 8 << 20
BATCH_BYTES, BATCH_FILES = 8 << 20, 256
TICK_S = 0.1


class HashTask:
    """A file to be hashed.

    ``stamp`` (size, times and inode) is the state that the file must still have. If it is None, the
    file must have ``size`` bytes, and is not read otherwise.
    """

    __slots__ = ("path", "size", "stamp")

    def __init__(self, path: bytes, size: int, stamp: Stamp | None = None) -> None:
        self.path = path
        self.size = size
        self.stamp = stamp


class HashedFile:
    """A file with its SHA-256; ``sha256`` is None if its size differs from that of the task.

    ``known`` states whether the checksum was taken from an earlier run, without reading the file.
    """

    __slots__ = ("known", "path", "sha256", "stamp")

    def __init__(self, path: bytes, stamp: Stamp, sha256: str | None, *, known: bool) -> None:
        self.path = path
        self.stamp = stamp
        self.sha256 = sha256
        self.known = known


Outcome = HashedFile | TreeProblem


def count_cpus() -> int:
    """Return the number of CPUs on which this process may run."""
    return len(os.sched_getaffinity(0))


def hash_files(
    root: bytes,
    tasks: Iterable[HashTask],
    *,
    known: Known | None = None,
    workers: int | None = None,
    heard: Callable[[int], None] | None = None,
) -> Generator[list[Outcome]]:
    """Hash files below ``root`` and yield the results in lists, in no particular order.

    ``known`` has checksums of an earlier run by path, used while a file's stamp is the same.
    ``workers`` is the number of threads; None: one for each CPU. ``heard`` is a progress callback,
    called about ten times a second with the number of bytes processed. If the iterator is closed or
    interrupted, the threads stop within the time to read one buffer.
    """
    work = _Work(root, known or {})
    work.make_batches(tasks)
    threads = [
        threading.Thread(
            target=work.process_batches, args=(number,), daemon=True, name=f"hash-{number}"
        )
        for number in range(min(workers or count_cpus(), len(work.batches)))
    ]
    work.done = [0] * len(threads)
    remaining = len(work.batches)
    try:
        for thread in threads:
            thread.start()
        while remaining:
            try:
                outcomes = work.outcomes.get(timeout=TICK_S)
            except queue.Empty:
                outcomes = None
            if isinstance(outcomes, BaseException):
                raise outcomes
            if outcomes is not None:
                remaining -= 1
                yield outcomes
            if heard is not None:
                heard(sum(work.done))
    finally:
        work.stopped = True
        for thread in threads:
            if thread.ident is not None:
                thread.join()


class _Work:
    """Batches, results and progress that the hashing threads share."""

    def __init__(self, root: bytes, known_files: Known) -> None:
        self._root = root
        self._known = known_files
        self.batches: list[list[HashTask]] = []
        self.outcomes: queue.SimpleQueue[list[Outcome] | BaseException] = queue.SimpleQueue()
        self.done: list[int] = []
        self.stopped = False

    def make_batches(self, tasks: Iterable[HashTask]) -> None:
        """Divide the files into batches, of which threads take the last one first."""
        large, batch, batch_bytes = [], list[HashTask](), 0
        for task in tasks:
            if task.size >= LARGE:
                large.append(task)
                continue
            batch.append(task)
            batch_bytes += task.size
            if batch_bytes >= BATCH_BYTES or len(batch) >= BATCH_FILES:
                self.batches.append(batch)
                batch, batch_bytes = [], 0
        if batch:
            self.batches.append(batch)
        self.batches.reverse()
        self.batches += [[task] for task in sorted(large, key=lambda task: task.size)]
        self._waiting = list(self.batches)

    def process_batches(self, number: int) -> None:
        """Process batches in thread ``number`` until none is left."""
        buffer = bytearray(BUFFER)
        try:
            with memoryview(buffer) as view:
                while not self.stopped:
                    try:
                        batch = self._waiting.pop()
                    except IndexError:
                        return
                    outcomes = []
                    for task in batch:
                        outcome = self._hash_file(task, buffer, view, number)
                        if outcome is None:
                            return
                        outcomes.append(outcome)
                    self.outcomes.put(outcomes)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            self.outcomes.put(error)

    def _hash_file(
        self, task: HashTask, buffer: bytearray, view: memoryview, number: int
    ) -> Outcome | None:
        """Read and hash one file; return None if the run was interrupted. A file that cannot be
        read or has changed gives a ``TreeProblem``."""
        # Each task counts with its expected size, so that the sum reaches the total.
        counted = self.done[number] + task.size
        path = self._root + b"/" + task.path
        try:
            # Without O_NONBLOCK this would block on a named pipe that has replaced the file.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.done[number] = counted
            return make_unreadable_problem(task.path, error)
        try:
            before = os.fstat(handle)
            outcome = self._find_known_outcome(task, before)
            if outcome is not None:
                return outcome
            digest = hashlib.sha256()
            remaining = before.st_size
            while remaining > 0:
                if self.stopped:
                    return None
                count = os.readv(handle, (buffer,))
                if count == 0:
                    break
                digest.update(view[:count])
                remaining -= count
                if remaining > 0:
                    self.done[number] += count
            if remaining != 0 or make_stamp(os.fstat(handle)) != make_stamp(before):
                return TreeProblem(task.path, CHANGED, "was changed while it was read")
            return HashedFile(task.path, make_stamp(before), digest.hexdigest(), known=False)
        except OSError as error:
            return make_unreadable_problem(task.path, error)
        finally:
            os.close(handle)
            self.done[number] = counted

    def _find_known_outcome(self, task: HashTask, now: os.stat_result) -> Outcome | None:
        if not stat.S_ISREG(now.st_mode):
            return TreeProblem(task.path, REFUSED, "is no longer a file")
        present = make_stamp(now)
        if task.stamp is not None and present != task.stamp:
            return TreeProblem(task.path, CHANGED, "was changed since the folder was listed")
        if task.stamp is None and now.st_size != task.size:
            return HashedFile(task.path, present, None, known=False)
        earlier = self._known.get(task.path)
        if earlier is not None and earlier[0] == present:
            return HashedFile(task.path, present, earlier[1], known=True)
        return None
