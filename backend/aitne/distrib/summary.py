"""What a rank has communicated so far, in numbers small enough to send every few seconds.

Three lengths of time are told apart, all unions of intervals, so that nothing is counted twice:

- *communicating*: some collective of this rank is running, on whatever thread;
- *blocked*: the training thread itself is in a collective, or waits for one (the ``wait`` mark);
- *hidden*: communicating while not blocked: the training thread computes meanwhile.

A step lasts from one ``step`` mark to the next, and only what lies in steps counts into the three:
broadcasting the first parameters is in the table, not in the share. A program that never marks a step
is measured from its first record to its last.

The rows of the table are those of hvprof, the profiler for Horovod of Anthony, Xu, Subramoni and Panda
(2021, doi:10.1109/IPDPSW52791.2021.00143): its bounds 128 KB, 16 MB, 32 MB and 64 MB are among ours, in
powers of two, so that our rows add up to its.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aitne.distrib.recording import STEP, WAIT, Entry

KIB, MIB = 1 << 10, 1 << 20
EDGES = (128, KIB, 8 * KIB, 128 * KIB, MIB, 16 * MIB, 32 * MIB, 64 * MIB)
"""The largest message of each row but the last, bytes."""

Times: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_EDGES = np.array(EDGES)
_LIMIT = 1 << 13
"""Entries that may wait for the end of their step; a longer step is folded in parts."""


def row_of(nbytes: int) -> int:
    """The row of the table that a message of so many bytes belongs to."""
    return bisect_left(EDGES, nbytes)


def bounds_of(row: int) -> tuple[int, int | None]:
    """The smallest and the largest message of a row, bytes; the last row has no largest."""
    low = EDGES[row - 1] + 1 if row else 0
    return low, EDGES[row] if row < len(EDGES) else None


def covered(begins: Times, ends: Times) -> int:
    """For how long at least one of the intervals goes on; empty ones count for nothing."""
    kept = ends > begins
    begins, ends = begins[kept], ends[kept]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    begins[1:] = np.maximum(begins[1:], reach[:-1])
    return int(np.maximum(ends - begins, 0).sum())


@dataclass
class Cell:
    """One operation's messages of one row. Times in ns."""

    count: int = 0
    nbytes: int = 0
    time_ns: int = 0
    fastest_ns: int = 0
    slowest_ns: int = 0
    ranks: int = 0
    """How many took part in the latest."""

    def add(self, nbytes: Times, ranks: int, times_ns: Times) -> None:
        """Count more messages; ``ranks`` took part in the last of them."""
        fastest = int(times_ns.min())
        self.fastest_ns = min(self.fastest_ns, fastest) if self.count else fastest
        self.slowest_ns = max(self.slowest_ns, int(times_ns.max()))
        self.count += len(times_ns)
        self.nbytes += int(nbytes.sum())
        self.time_ns += int(times_ns.sum())
        self.ranks = ranks


@dataclass
class Span:
    """Time that was watched, and what of it was communication. Times in ns."""

    watched_ns: int = 0
    communicating_ns: int = 0
    blocked_ns: int = 0
    hidden_ns: int = 0
    waits: bool = False
    """Whether the training thread ever said that it waited."""
    elsewhere: bool = False
    """Whether another thread than the training thread ever communicated."""

    def add(self, begins: Times, ends: Times, communicating: Mask, blocked: Mask) -> None:
        """Take intervals that were cut to the time that was watched, of which the masks say what they were."""
        busy = covered(begins[communicating], ends[communicating])
        stopped = covered(begins[blocked], ends[blocked])
        either = communicating | blocked
        self.communicating_ns += busy
        self.blocked_ns += stopped
        self.hidden_ns += covered(begins[either], ends[either]) - stopped


@dataclass
class Summary:
    """Grows with every entry that ``add`` takes. Not for several threads at once."""

    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)
    steps: int = 0
    records: int = 0
    first_ns: int | None = None
    last_ns: int = 0
    _in_steps: Span = field(default_factory=Span)
    _outside: Span = field(default_factory=Span)
    _open: list[Entry] = field(default_factory=list)
    _begin: int | None = None
    """Since when entries of ``_open`` count."""
    _trainer: int | None = field(default_factory=lambda: threading.main_thread().ident)
    _marked: bool = False

    def add(self, entries: Sequence[Entry]) -> None:
        """Take entries in the order in which they were added to the ring; any number costs a few passes."""
        if entries:
            self._count(entries)
            self._open += entries
        marks = [at for at, entry in enumerate(self._open) if entry[1] == STEP]
        if marks and not self._marked:
            self._fold(self._outside, marks[:1])
            self._marked = True
            marks = [at - marks[0] - 1 for at in marks[1:]]
        if marks:
            self._fold(self._in_steps, marks)
            self.steps += len(marks)
        if self._open and (len(self._open) > _LIMIT or not self._marked):
            # A step that is not over, or a program without steps: as if it ended here.
            end = max(entry[5] for entry in self._open)
            self._open.append((0, STEP, 0, 0, end, end, self._trainer or 0))
            self._fold(self._in_steps if self._marked else self._outside, [len(self._open) - 1])

    def _count(self, entries: Sequence[Entry]) -> None:
        """Into the table, each entry but marks."""
        found = [entry for entry in entries if entry[1] != STEP]
        if not found:
            return
        _numbers, ops, nbytes, ranks, t0, t1, _threads = zip(*found, strict=True)
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
                cell.add(sizes[places], ranks[places[-1]], times[places])

    def _fold(self, span: Span, marks: Sequence[int]) -> None:
        """Add up what was open until the last of the marks, which are places in ``_open``."""
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
        span.add(begins, ends, communicating, training & ~marked)
        self._trainer = int(thread[-1])

    def message(self, dropped: int = 0) -> dict[str, Any]:
        """All of it as JSON can hold it; times in seconds. Later messages hold what earlier ones held.

        ``elsewhere`` says that another thread than the training thread communicated, ``waits`` that the
        training thread has ever said when it waited for that: without it nobody knows what was hidden.
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
