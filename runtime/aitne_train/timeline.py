"""Horovod's timeline: the events of every tensor in a file for Chrome's trace viewer and Perfetto.

With ``HOROVOD_TIMELINE`` set to a path, rank 0 records from ``init`` to ``shutdown``; with
``HOROVOD_TIMELINE=DYNAMIC``, between ``start_timeline`` and ``stop_timeline``. Each tensor has a
row, with a name such as ``allreduce.gradient`` and the events of Horovod 0.28:
``NEGOTIATE_ALLREDUCE``, in which an instant marks each rank that becomes ready; then ``ALLREDUCE``,
which contains its parts such as ``MEMCPY_IN_FUSION_BUFFER``. Times are in microseconds since the
start of the recording.

If ``TIMELINE.on`` is true, the coordinator calls ``TIMELINE.ready`` and ``TIMELINE.agreed``, and
the execution of collectives calls ``TIMELINE.begin`` and ``TIMELINE.end``. Otherwise only the check
of ``on`` takes time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aitne_train.interruptible_event import Flag

DYNAMIC = "DYNAMIC"
CYCLE_START = "CYCLE_START"
INIT_FUSION_BUFFER = "INIT_FUSION_BUFFER"
MEMCPY_IN_FUSION_BUFFER = "MEMCPY_IN_FUSION_BUFFER"
MEMCPY_OUT_FUSION_BUFFER = "MEMCPY_OUT_FUSION_BUFFER"
ALLOCATE_OUTPUT = "ALLOCATE_OUTPUT"
WAIT_FOR_DATA = "WAIT_FOR_DATA"
WAIT_FOR_OTHER_TENSOR_DATA = "WAIT_FOR_OTHER_TENSOR_DATA"
QUEUE = "QUEUE"

_READY, _AGREED = "ready", "agreed"
_FLUSH_S = 0.1
_END = b"\n]\n"


def name_negotiation(kind: str) -> str:
    """Return the name of the event during which ranks submit their requests for a collective of
    this kind, such as ``NEGOTIATE_ALLREDUCE``.
    """
    return f"NEGOTIATE_{kind.upper()}"


def name_execution(kind: str) -> str:
    """Return the name of the event during which a collective of this kind is executed, such as
    ``ALLREDUCE``.
    """
    return kind.upper()


class Timeline:
    """Writer of Horovod's timeline, to one file at a time. Any thread may record events; a separate
    thread writes them.

    The file is valid JSON at any time, even if the process dies: each write closes the list of
    events, and the next write overwrites that end.
    """

    def __init__(self) -> None:
        self.on = False
        """Whether events are being recorded at present."""
        self.marks_cycles = False
        self._lock = threading.Lock()
        self._file: _TimelineFile | None = None

    def start(self, path: Path, *, mark_cycles: bool = False) -> None:
        """Start recording to a new file; a file that is being written is completed first.

        Raises ``OSError`` if the file cannot be written.
        """
        with self._lock:
            self.stop()
            self._file = file = _TimelineFile(path, self._stop_after_error)
            self.marks_cycles = mark_cycles
            file.start()
            self.on = True

    def stop(self) -> None:
        """Write the remaining events and close the file. Has no effect if no file is open."""
        self.on = False
        file = self._file
        if file is not None:
            file.close()
        self._file = None

    def begin_event(self, row: str, event: str) -> None:
        """Record the start of an event in the row of a tensor.

        Events of a row are nested: the event that started last ends first.
        """
        self._add_event("B", row, event, None)

    def end_event(
        self, row: str, *, dtype: str | None = None, shape: Sequence[int] | None = None
    ) -> None:
        """Record the end of the event that started last in the row.

        At the end of a whole collective, ``dtype`` and ``shape`` are those of its result.
        """
        args = None if dtype is None else {"dtype": dtype, "shape": str(list(shape or ()))}
        self._add_event("E", row, "", args)

    def record_ready(self, row: str, event: str, rank: int) -> None:
        """Record that ``rank`` has submitted its request for the collective of this row.

        For the first rank, this also starts the event ``event``, which lasts until all ranks have
        submitted theirs.
        """
        self._add_event(_READY, row, event, rank)

    def record_agreement(self, row: str) -> None:
        """Record that all ranks have submitted their requests for the collective of this row. Has
        no effect if the first of them came before the recording started.
        """
        self._add_event(_AGREED, row, "", None)

    def mark_cycle(self) -> None:
        """Record that rank 0 checks for ready collectives, if ``start`` was called with
        ``mark_cycles``.
        """
        if self.marks_cycles:
            self._add_event("i", None, CYCLE_START, None)

    def _add_event(self, phase: str, row: str | None, event: str, args: Any) -> None:
        file = self._file
        if self.on and file is not None:
            file.add_event(phase, row, event, args)

    def _stop_after_error(self, error: OSError) -> None:
        self.on = False
        sys.stderr.write(f"aitne: the timeline is no longer written: {error.strerror}\n")


class _TimelineFile:
    """File of a timeline, and the thread that writes events to it.

    Raises ``OSError`` if the file cannot be written.
    """

    def __init__(self, path: Path, fail: Callable[[OSError], None]) -> None:
        self._fail = fail
        self._events: deque[tuple[int, str, str | None, str, Any]] = deque()
        self._wake = Flag()
        self._stop = Flag()
        self._rows: dict[str, int] = {}
        self._negotiating: set[str] = set()
        self._began_ns = time.monotonic_ns()
        epoch = {"start_time_since_epoch_in_micros": time.time_ns() // 1000}
        head: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 0, "args": epoch},
            {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}},
        ]
        self._end = 2 + len(_format_lines(head))
        self._thread = threading.Thread(
            target=self._write_events, name="aitne-timeline", daemon=True
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o644), "wb", buffering=0)
        try:
            os.pwrite(self._file.fileno(), b"[\n" + _format_lines(head) + _END, 0)
        except BaseException:
            self._file.close()
            raise

    def start(self) -> None:
        """Start the thread that writes the events."""
        self._thread.start()

    def close(self) -> None:
        """Write the remaining events and close the file."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():  # an interrupt may have come before its start
            self._thread.join()
        self._file.close()

    def add_event(self, phase: str, row: str | None, event: str, args: Any) -> None:
        """Add an event, which is written soon."""
        self._events.append((time.monotonic_ns(), phase, row, event, args))
        if not self._wake.is_set():
            self._wake.set()

    def _write_events(self) -> None:
        if self._file.closed:
            return
        with self._file:
            try:
                while not self._stop.is_set():
                    self._wake.wait()
                    self._wake.clear()
                    self._flush()
                    self._stop.wait(_FLUSH_S)
                self._flush()
            except OSError as error:
                self._fail(error)

    def _flush(self) -> None:
        rows: list[dict[str, Any]] = []
        for _ in range(len(self._events)):  # more may arrive meanwhile
            at_ns, phase, row, event, args = self._events.popleft()
            rows += self._format_event((at_ns - self._began_ns) // 1000, phase, row, event, args)
        if not rows:
            return
        lines = b",\n" + _format_lines(rows)
        rest = memoryview(lines + _END)
        at = self._end
        while rest:
            written_bytes = os.pwrite(self._file.fileno(), rest, at)
            rest, at = rest[written_bytes:], at + written_bytes
        self._end += len(lines)

    def _format_event(
        self, at_us: int, phase: str, row: str | None, event: str, args: Any
    ) -> list[dict[str, Any]]:
        if row is None:
            return [{"ph": phase, "name": event, "ts": at_us, "s": "g"}]
        if phase == _READY:
            first = row not in self._negotiating
            self._negotiating.add(row)
            begun = self._format_event(at_us, "B", row, event, None) if first else []
            return [*begun, *self._format_event(at_us, "X", row, str(args), None)]
        if phase == _AGREED:
            if row not in self._negotiating:
                return []
            self._negotiating.remove(row)
            phase = "E"
        made: list[dict[str, Any]] = []
        if (pid := self._rows.get(row)) is None:
            pid = self._rows[row] = len(self._rows) + 1
            made = [
                {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": row}},
                {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}},
            ]
        line: dict[str, Any] = {"ph": phase}
        if phase != "E":
            line["name"] = event
        line |= {"ts": at_us, "pid": pid}
        if phase == "X":
            line["dur"] = 0
        if args is not None:
            line["args"] = args
        return [*made, line]


TIMELINE = Timeline()
"""The only timeline of this process."""


def start_from_environment(rank: int, environ: Mapping[str, str] = os.environ) -> None:
    """Start recording if ``HOROVOD_TIMELINE`` contains the path of a file and this is rank 0.
    Called by ``init``.
    """
    path = environ.get("HOROVOD_TIMELINE", "")
    if path and path != DYNAMIC and rank == 0:
        mark_cycles = environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") not in ("", "0")
        try:
            TIMELINE.start(Path(path), mark_cycles=mark_cycles)
        except OSError as error:
            sys.stderr.write(f"aitne: no timeline is written: {path}: {error.strerror}\n")


def start_timeline(
    file_path: str, mark_cycles: bool = False, *, rank: int, environ: Mapping[str, str] = os.environ
) -> None:
    """Start recording to a file on rank 0; has no effect on other ranks.

    Raises:
        ValueError: ``HOROVOD_TIMELINE`` is not set; it should be ``DYNAMIC``.
        OSError: the file cannot be written.
    """
    if not environ.get("HOROVOD_TIMELINE"):
        raise ValueError("Set HOROVOD_TIMELINE=DYNAMIC to enable dynamic timeline usage.")
    if rank == 0:
        TIMELINE.start(Path(file_path), mark_cycles=mark_cycles)


def stop_timeline() -> None:
    """Stop recording and complete the file."""
    TIMELINE.stop()


def _format_lines(events: Sequence[Mapping[str, Any]]) -> bytes:
    return ",\n".join(json.dumps(event, separators=(",", ":")) for event in events).encode()
