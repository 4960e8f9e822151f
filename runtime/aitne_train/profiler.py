"""Recording of a run's communication profile: every rank summarizes its records of collectives, and
rank 0 writes the file.

A thread of each rank wakes every few seconds, reads the records and, if the rank's totals have
changed, sends them to rank 0; the training thread is not involved. A lost message has no effect,
because the next one contains the totals from the beginning too.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from aitne_train.collective_summary import CollectiveSummary
from aitne_train.gpu_stream_sync import QUEUED
from aitne_train.interruptible_event import Flag
from aitne_train.profile_document import History, build_document, compute_totals
from aitne_train.record_ring import STEP, WAIT, Entry, RecordRing

PROFILE_FILE = "profile.json"
TRACE_FILE = "profile.trace.json"
TRACE_ENTRIES = 20_000
"""Number of last records of rank 0 that the trace file contains, about 2 MB."""
INTERVAL_S = 2.0
RANKS_PER_INTERVAL = 64
"""Number of ranks above which ranks report less often, in proportion, so that rank 0's load is
constant."""
LAST_WORDS_S = 0.5
"""Seconds that rank 0 waits, when it ends, for the final totals of other ranks."""

Send: TypeAlias = Callable[[dict[str, Any]], None]
"""Function that sends a message to rank 0. Raises ``OSError`` if rank 0 is unreachable."""


def find_profile_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder for profiles: the value of ``AITNE_PROFILE``, or else of ``AITNE_RUN_DIR``;
    None if neither is set.
    """
    name = environ.get("AITNE_PROFILE") or environ.get("AITNE_RUN_DIR")
    return Path(name) if name else None


class Profiler:
    """Component that summarizes the records of this rank's collectives and sends the totals to rank
    0, where it writes the profile of the run.

    ``nodes`` contains the number of each rank's node; ``send`` sends a message to rank 0 and is
    used on the other ranks.
    """

    def __init__(
        self,
        ring: RecordRing,
        rank: int,
        nodes: Sequence[int],
        send: Send,
        folder: Path | None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._ring = ring
        self._rank = rank
        self._nodes = tuple(nodes)
        self._send = send
        self._folder = folder
        self._interval_s = interval_s * max(1.0, len(nodes) / RANKS_PER_INTERVAL)
        self._summary = CollectiveSummary()
        self._summarizing = threading.Lock()
        self._unsent = False
        self._trace: deque[Entry] = deque(maxlen=TRACE_ENTRIES)
        self._history = History()
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._messages: dict[int, dict[str, Any]] = {}
        self._ended: set[int] = set()
        self._fresh = False
        self._all_ended = Flag()
        self._stop = Flag()
        self._thread = threading.Thread(
            target=self._update_profile, name="aitne-profile", daemon=True
        )

    def start(self) -> None:
        """Start to send the totals to rank 0 at regular intervals, and to write the profile there."""
        _running.append(self)
        self._thread.start()

    def total_by_operation(self) -> tuple[float, dict[str, tuple[int, int, float]]]:
        """Return the time at which the recording began, and for each operation the number of this
        rank's collectives until now, their bytes and their seconds. May be called from any thread.
        """
        with self._summarizing:
            self._summarize_records()
            found: dict[str, tuple[int, int, float]] = {}
            for (name, _), cell in self._summary.cells.items():
                count, nbytes, time_s = found.get(name, (0, 0, 0.0))
                seconds = time_s + cell.time_ns / 1e9
                found[name] = (count + cell.count, nbytes + cell.nbytes, seconds)
        return self._began, found

    def store_totals(self, rank: int, payload: Mapping[str, Any]) -> None:
        """Store on rank 0 the totals (``payload``) that rank ``rank`` has sent. May be called from
        any thread.
        """
        with self._lock:
            self._messages[rank] = payload["totals"]
            self._fresh = True
            if payload["final"]:
                self._end_rank(rank)

    def record_lost_rank(self, rank: int) -> None:
        """Record on rank 0 that ``rank`` is lost and sends no more totals. May be called from any
        thread.
        """
        with self._lock:
            self._end_rank(rank)

    def close(self) -> None:
        """Send the final totals to rank 0; on rank 0, write the profile.

        Must be called once, before the connection to rank 0 is closed.
        """
        if self in _running:
            _running.remove(self)
        self._stop.set()
        if self._thread.is_alive():  # an interrupt may have come before its start
            self._thread.join()
        self._exchange_totals(final=True)
        if self._rank == 0:
            self._all_ended.wait(LAST_WORDS_S)
            self._write_profile(final=True)
            self._write_json(TRACE_FILE, build_trace(self._trace))

    def _end_rank(self, rank: int) -> None:
        """Record that a rank sends no more totals. The caller holds the lock ``_lock``."""
        self._ended.add(rank)
        if len(self._ended) >= len(self._nodes):
            self._all_ended.set()

    def _update_profile(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._exchange_totals(final=False)
            if self._rank == 0 and self._fresh:
                self._write_profile(final=False)

    def _exchange_totals(self, *, final: bool) -> None:
        with self._summarizing:
            self._summarize_records()
            if not self._unsent and not final:
                return
            self._unsent = False
            message = self._summary.build_message(self._ring.dropped) | {"queued": QUEUED.used}
        payload = {"totals": message, "final": final}
        if self._rank == 0:
            self.store_totals(0, payload)
            return
        try:
            self._send(payload)
        except OSError:
            # Rank 0 is lost, and the profile with it. The program is notified by other means.
            self._stop.set()

    def _summarize_records(self) -> None:
        """Add the new records to the summary. The caller holds the lock ``_summarizing``."""
        if entries := self._ring.drain():
            self._unsent = True
            self._summary.add_records(entries)
            if self._rank == 0:
                self._trace.extend(entries)

    def _write_profile(self, *, final: bool) -> None:
        with self._lock:
            messages = dict(self._messages)
            self._fresh = False
        self._history.add(time.monotonic() - self._began, compute_totals(messages))
        content = build_document(messages, self._nodes, self._history.points, final=final)
        self._write_json(PROFILE_FILE, content)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file atomically as JSON. If that fails, report it on stderr and write no more
        files; training continues.
        """
        if self._folder is None:
            return
        path = self._folder / name
        beside = path.with_name(f".{name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(content, allow_nan=False, separators=(",", ":")))
            beside.replace(path)
        except OSError as error:
            sys.stderr.write(f"aitne: no profile is kept of this run: {path}: {error.strerror}\n")
            self._folder = None
            with suppress(OSError):  # it may not exist
                beside.unlink()


_running: list[Profiler] = []
"""Profilers of this process that have not been closed, the latest last."""


def total_by_operation() -> tuple[float, dict[str, tuple[int, int, float]]] | None:
    """Return what ``Profiler.total_by_operation`` of this process's run returns; None without a run that
    is recorded.
    """
    running = _running[-1:]
    return running[0].total_by_operation() if running else None


def build_trace(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return the records in the format of Chrome's trace viewer and Perfetto, with one row for each
    thread and times in microseconds.

    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    events: list[dict[str, Any]] = []
    threads: dict[int, int] = {}
    for _number, op, nbytes, ranks, t0_ns, t1_ns, thread in entries:
        row = threads.setdefault(thread, len(threads))
        event: dict[str, Any] = {"name": op, "pid": 0, "tid": row, "ts": t0_ns / 1e3}
        if op == STEP:
            event |= {"ph": "i", "s": "p"}
        else:
            event |= {"ph": "X", "dur": (t1_ns - t0_ns) / 1e3}
            if op != WAIT:
                event["args"] = {"bytes": nbytes, "ranks": ranks}
        events.append(event)
    return {"displayTimeUnit": "ms", "traceEvents": events}
