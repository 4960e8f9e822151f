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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aitne.distrib.recording import STEP, WAIT, Entry

KIB, MIB = 1 << 10, 1 << 20
EDGES = (128, KIB, 8 * KIB, 128 * KIB, MIB, 16 * MIB, 32 * MIB, 64 * MIB)
"""The largest message of each row but the last, bytes."""

Intervals: TypeAlias = list[tuple[int, int]]

_LIMIT = 1 << 13
"""Entries that may wait for the end of their step; a longer step is folded in parts."""


def row_of(nbytes: int) -> int:
    """The row of the table that a message of so many bytes belongs to."""
    return bisect_left(EDGES, nbytes)


def bounds_of(row: int) -> tuple[int, int | None]:
    """The smallest and the largest message of a row, bytes; the last row has no largest."""
    low = EDGES[row - 1] + 1 if row else 0
    return low, EDGES[row] if row < len(EDGES) else None


def union(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """The same time, as disjoint intervals in ascending order; empty ones left out."""
    merged: Intervals = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def length(merged: Intervals) -> int:
    """How long disjoint intervals are together."""
    return sum(end - begin for begin, end in merged)


def shared(one: Intervals, other: Intervals) -> int:
    """For how long two unions go on at the same time."""
    total = i = j = 0
    while i < len(one) and j < len(other):
        total += max(0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total


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

    def add(self, nbytes: int, ranks: int, time_ns: int) -> None:
        """Count one more."""
        self.fastest_ns = min(self.fastest_ns, time_ns) if self.count else time_ns
        self.slowest_ns = max(self.slowest_ns, time_ns)
        self.count += 1
        self.nbytes += nbytes
        self.time_ns += time_ns
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

    def add(self, begin: int, end: int, communicating: Intervals, blocked: Intervals) -> None:
        """Watch the time from ``begin`` to ``end``; intervals are cut to it."""
        inside = union((max(a, begin), min(b, end)) for a, b in communicating)
        stopped = union((max(a, begin), min(b, end)) for a, b in blocked)
        busy = length(inside)
        self.watched_ns += max(0, end - begin)
        self.communicating_ns += busy
        self.blocked_ns += length(stopped)
        self.hidden_ns += busy - shared(inside, stopped)


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
        """Take entries in the order in which they were added to the ring."""
        for entry in entries:
            _number, op, nbytes, ranks, t0_ns, t1_ns, thread = entry
            if op == STEP:
                self._trainer = thread
                self._fold(t1_ns)
                self.steps += self._marked
                self._marked = True
                continue
            self.first_ns = t0_ns if self.first_ns is None else min(self.first_ns, t0_ns)
            self.last_ns = max(self.last_ns, t1_ns)
            self._open.append(entry)
            if op == WAIT:
                continue
            self.records += 1
            key = (op, row_of(nbytes))
            if (cell := self.cells.get(key)) is None:
                cell = self.cells[key] = Cell()
            cell.add(nbytes, ranks, t1_ns - t0_ns)
        if self._open and (len(self._open) > _LIMIT or not self._marked):
            self._fold(max(entry[5] for entry in self._open))

    def _fold(self, end: int) -> None:
        begin = self._begin if self._begin is not None else self.first_ns
        begin = end if begin is None else begin
        span = self._in_steps if self._marked else self._outside
        communicating: Intervals = []
        blocked: Intervals = []
        for _number, op, _nbytes, _ranks, t0_ns, t1_ns, thread in self._open:
            training = thread == self._trainer
            if op != WAIT:
                communicating.append((t0_ns, t1_ns))
                span.elsewhere |= not training
            elif training:
                span.waits = True
            if training:
                blocked.append((t0_ns, t1_ns))
        if end > begin:
            span.add(begin, end, communicating, blocked)
        self._open.clear()
        self._begin = max(begin, end)

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
