"""Ring buffer for records of collectives, from which the profile reads them. Writing never waits
for a reader.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Mapping
from typing import TypeAlias

from aitne_train.collective_record import Recorder

STEP = "step"
"""Operation name of a record that marks the end of a training step: the optimizer has applied its
gradients. Its ``t0_ns`` and ``t1_ns`` are equal."""
WAIT = "wait"
"""Operation name of a record that marks a wait: from ``t0_ns`` to ``t1_ns`` the training thread
waited for an exchange on another thread."""
MARKS = frozenset({STEP, WAIT})

CAPACITY = 1 << 15


Entry: TypeAlias = tuple[int, str, int, int, int, int, int]
"""Stored record: its sequence number, the five fields of ``CollectiveRecord``, and
``threading.get_ident()`` of the thread that added it."""


class RecordRing:
    """Ring buffer of the last records of this rank's collectives. Any number of threads may add
    records; one thread reads them.

    A writing thread takes a sequence number and fills the slot of that number. This needs two
    atomic operations of the interpreter and no lock, about 0.15 µs. If the reader is too slow,
    records are overwritten and counted in ``dropped``.

    ``capacity`` is a power of two.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError(f"capacity is {capacity}, not a power of two")
        self._slots: list[Entry] = [(-1, "", 0, 0, 0, 0, 0)] * capacity
        self._mask = capacity - 1
        self._numbers = itertools.count()
        self._read = 0
        self._newest = -1
        self.dropped = 0
        """Number of records that were overwritten before ``drain`` read them."""

    def add(self, op: str, nbytes: int, ranks: int, t0_ns: int, t1_ns: int) -> None:
        """Add a record to the ring."""
        number = next(self._numbers)
        self._slots[number & self._mask] = (
            number,
            op,
            nbytes,
            ranks,
            t0_ns,
            t1_ns,
            threading.get_ident(),
        )

    def step(self) -> None:
        """Add a mark for the end of a training step; called on the thread that trains."""
        now = time.monotonic_ns()
        self.add(STEP, 0, 0, now, now)

    def drain(self) -> list[Entry]:
        """Return the records added since the last call, oldest first. Only one thread may call
        this.
        """
        entries: list[Entry] = []
        while True:
            entry = self._slots[self._read & self._mask]
            number = entry[0]
            if number < self._read:
                return entries  # empty, or its writer has only taken its number
            if number > self._read:
                # The oldest record is one round behind this one.
                oldest = number - self._mask
                self.dropped += oldest - self._read
                self._read = oldest
                continue
            entries.append(entry)
            self._read += 1

    def read_newest_number(self) -> int:
        """Return the sequence number of the latest record, by which a caller detects whether
        records were added since its last call.

        Only one thread may call this; it need not be the one that calls ``drain``.
        """
        while (number := self._slots[(self._newest + 1) & self._mask][0]) > self._newest:
            self._newest = number
        return self._newest


class NullRecorder:
    """Recorder that discards all records, to measure the cost of recording by comparison."""

    def add(self, op: str, nbytes: int, ranks: int, t0_ns: int, t1_ns: int) -> None:
        """Discard the record of a collective."""

    def step(self) -> None:
        """Discard the mark of a step."""


def create_recorder(environ: Mapping[str, str] | None = None) -> Recorder:
    """Return a ``RecordRing``, or a ``NullRecorder`` if ``AITNE_RECORD=0`` is set in ``environ``
    (default: the environment of this process).
    """
    environ = os.environ if environ is None else environ
    return NullRecorder() if environ.get("AITNE_RECORD") == "0" else RecordRing()
