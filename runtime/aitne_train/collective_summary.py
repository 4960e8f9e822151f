"""Summary of a rank's communication, small enough to be sent to rank 0 every few seconds.

Three durations are distinguished. Each is the length of a union of intervals, so that nothing is
counted twice:

- *communicating*: a collective of this rank is running, on any thread;
- *blocked*: the training thread is in a collective, or waits for one (a ``wait`` mark);
- *hidden*: communicating but not blocked, because the training thread computes meanwhile.

A step lasts from one ``step`` mark to the next, and only intervals within steps count: the broadcast
of the initial parameters, for example, appears in the table of message sizes but not in these
durations. A program that marks no steps is measured from its first record to its last.

The table has one row for each operation and range of message sizes. The ranges refine those of
hvprof, the profiler for Horovod of Anthony, Xu, Subramoni and Panda (2021,
doi:10.1109/IPDPSW52791.2021.00143), whose bounds are 128 KB, 16 MB, 32 MB and 64 MB (in powers of
two), so that rows can be added up to hvprof's.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aitne_train.record_ring import STEP, WAIT, Entry

KIB, MIB = 1 << 10, 1 << 20
EDGES = (128, KIB, 8 * KIB, 128 * KIB, MIB, 16 * MIB, 32 * MIB, 64 * MIB)
"""Largest message in bytes of each size range in the table; the last range has no limit and is not
listed."""

Times: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_EDGES = np.array(EDGES)
_LIMIT = 1 << 13
"""Maximum number of records kept until the end of their step; the records of a longer step are
processed in parts."""


def find_size_row(nbytes: int) -> int:
    """Return the index of the size range to which a message of ``nbytes`` bytes belongs."""
    return bisect_left(EDGES, nbytes)


def get_row_bounds(row: int) -> tuple[int, int | None]:
    """Return the smallest and the largest size in bytes of the messages in the size range number
    ``row``; the largest size of the last range is None.
    """
    low = EDGES[row - 1] + 1 if row else 0
    return low, EDGES[row] if row < len(EDGES) else None


def measure_covered_time(begins: Times, ends: Times) -> int:
    """Return the total duration covered by the intervals from ``begins`` to ``ends``; overlaps
    count once, and empty intervals are ignored.
    """
    nonempty = ends > begins
    begins, ends = begins[nonempty], ends[nonempty]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    begins[1:] = np.maximum(begins[1:], reach[:-1])
    return int(np.maximum(ends - begins, 0).sum())


@dataclass
class Cell:
    """Totals of the collectives of one operation and one range of message sizes."""

    count: int = 0
    """Number of collectives."""
    nbytes: int = 0
    """Number of bytes that this rank contributed."""
    time_ns: int = 0
    """Total duration in nanoseconds."""
    fastest_ns: int = 0
    """Duration of the shortest collective in nanoseconds."""
    slowest_ns: int = 0
    """Duration of the longest collective in nanoseconds."""
    ranks: int = 0
    """Number of ranks that took part in the latest collective."""

    def add_collectives(self, nbytes: Times, ranks: int, times_ns: Times) -> None:
        """Add collectives with these sizes in bytes and durations; ``ranks`` is the number of ranks
        in the last of them.
        """
        fastest = int(times_ns.min())
        self.fastest_ns = min(self.fastest_ns, fastest) if self.count else fastest
        self.slowest_ns = max(self.slowest_ns, int(times_ns.max()))
        self.count += len(times_ns)
        self.nbytes += int(nbytes.sum())
        self.time_ns += int(times_ns.sum())
        self.ranks = ranks


@dataclass
class Span:
    """Totals of a rank over an observed period. Times are in nanoseconds; the module's docstring
    defines them.
    """

    watched_ns: int = 0
    """Length of the observed period."""
    communicating_ns: int = 0
    blocked_ns: int = 0
    hidden_ns: int = 0
    waits: bool = False
    """Whether the training thread has ever recorded a wait."""
    elsewhere: bool = False
    """Whether a thread other than the training thread has ever communicated."""

    def add_intervals(self, begins: Times, ends: Times, communicating: Mask, blocked: Mask) -> None:
        """Add intervals within the observed time. The masks select those in which a collective ran,
        and those in which the training thread was blocked.
        """
        busy = measure_covered_time(begins[communicating], ends[communicating])
        stopped = measure_covered_time(begins[blocked], ends[blocked])
        either = communicating | blocked
        self.communicating_ns += busy
        self.blocked_ns += stopped
        self.hidden_ns += measure_covered_time(begins[either], ends[either]) - stopped


@dataclass
class CollectiveSummary:
    """Summary of the records of this rank's collectives; ``add_records`` adds records. Not thread-safe."""

    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)
    steps: int = 0
    records: int = 0
    first_ns: int | None = None
    last_ns: int = 0
    _in_steps: Span = field(default_factory=Span)
    _outside: Span = field(default_factory=Span)
    _open: list[Entry] = field(default_factory=list)
    _begin: int | None = None
    """Start of the time that the records in ``_open`` cover; None if there are none yet."""
    _trainer: int | None = field(default_factory=lambda: threading.main_thread().ident)
    _marked: bool = False

    def add_records(self, entries: Sequence[Entry]) -> None:
        """Add records in the order in which ``RecordRing.drain`` returns them. The cost for each
        record is low, because arrays of records are processed at once.
        """
        if entries:
            self._count_records(entries)
            self._open += entries
        marks = [at for at, entry in enumerate(self._open) if entry[1] == STEP]
        if marks and not self._marked:
            self._fold_steps(self._outside, marks[:1])
            self._marked = True
            marks = [at - marks[0] - 1 for at in marks[1:]]
        if marks:
            self._fold_steps(self._in_steps, marks)
            self.steps += len(marks)
        if self._open and (len(self._open) > _LIMIT or not self._marked):
            # A step in progress, or a program without steps, is treated as if it ended here.
            end = max(entry[5] for entry in self._open)
            self._open.append((0, STEP, 0, 0, end, end, self._trainer or 0))
            self._fold_steps(
                self._in_steps if self._marked else self._outside, [len(self._open) - 1]
            )

    def _count_records(self, entries: Sequence[Entry]) -> None:
        """Add each record that is not a mark to the totals of its operation and size range."""
        records = [entry for entry in entries if entry[1] != STEP]
        if not records:
            return
        _numbers, ops, nbytes, ranks, t0, t1, _threads = zip(*records, strict=True)
        begins, ends = np.array(t0, np.int64), np.array(t1, np.int64)
        first = int(begins.min())
        self.first_ns = first if self.first_ns is None else min(self.first_ns, first)
        self.last_ns = max(self.last_ns, int(ends.max()))
        sizes, times = np.array(nbytes, np.int64), ends - begins
        rows: npt.NDArray[np.intp] = np.searchsorted(_EDGES, sizes)
        names = np.array(ops)
        for op in sorted(set(ops) - {WAIT}):
            of_op = names == op
            self.records += int(of_op.sum())
            for row in np.unique(rows[of_op]):
                places = np.flatnonzero(of_op & (rows == row))
                cell = self.cells.setdefault((op, int(row)), Cell())
                cell.add_collectives(sizes[places], ranks[places[-1]], times[places])

    def _fold_steps(self, span: Span, marks: Sequence[int]) -> None:
        """Add the records of complete steps to ``span`` and remove them from ``_open``. ``marks``
        contains the indices in ``_open`` of the marks that end the steps.
        """
        upto = marks[-1] + 1
        taken, self._open = self._open[:upto], self._open[upto:]
        _numbers, ops, _nbytes, _ranks, t0, t1, threads = zip(*taken, strict=True)
        begins, ends = np.array(t0, np.int64), np.array(t1, np.int64)
        places = np.array(marks)
        until = ends[places]
        if self._begin is None:
            self._begin = int(begins.min())
        since = np.maximum.accumulate(np.concatenate(([self._begin], until)))
        self._begin = int(since[-1])
        span.watched_ns += int((since[1:] - since[:-1]).sum())
        # Each entry is cut to the step whose mark comes next.
        step = np.searchsorted(places, np.arange(upto))
        begins, ends = np.maximum(begins, since[step]), np.minimum(ends, until[step])
        thread = np.array(threads, np.int64)
        trainers: Times = thread[places]
        training = thread == trainers[step]
        names = np.array(ops)
        waiting, marked = names == WAIT, names == STEP
        communicating = ~(waiting | marked)
        span.elsewhere |= bool((communicating & ~training).any())
        span.waits |= bool((waiting & training).any())
        span.add_intervals(begins, ends, communicating, training & ~marked)
        self._trainer = int(thread[-1])

    def build_message(self, dropped: int = 0) -> dict[str, Any]:
        """Return the totals from the beginning as JSON values, with times in seconds. ``dropped``
        is the number of records lost so far.

        ``elsewhere`` states whether a thread other than the training thread communicated, ``waits``
        whether the training thread ever recorded its waits. Without recorded waits the hidden time
        is unknown.
        """
        span = self._in_steps if self.steps else self._outside
        return {
            "steps": self.steps,
            "records": self.records,
            "dropped": dropped,
            "elapsed_s": (self.last_ns - (self.first_ns or self.last_ns)) / 1e9,
            "watched_s": span.watched_ns / 1e9,
            "communicating_s": span.communicating_ns / 1e9,
            "blocked_s": span.blocked_ns / 1e9,
            "hidden_s": span.hidden_ns / 1e9,
            "waits": span.waits,
            "elsewhere": span.elsewhere,
            "cells": [
                [
                    op,
                    row,
                    cell.count,
                    cell.nbytes,
                    cell.time_ns / 1e9,
                    cell.fastest_ns / 1e9,
                    cell.slowest_ns / 1e9,
                    cell.ranks,
                ]
                for (op, row), cell in sorted(self.cells.items())
            ],
        }
