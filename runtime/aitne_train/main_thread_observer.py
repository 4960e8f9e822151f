"""Observation of this rank's main thread: it computes, waits in a collective, or waits for
something else.

Waiting must not be confused with a long computation, which looks the same in a stack. A thread
counts as waiting if it stays at one instruction of the program while the process and its children
use no processor time, or while a collective is known not to progress.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from aitne_train import gpu_stream_sync, stall_detection
from aitne_train.gpu_stream_sync import GpuActivity
from aitne_train.record_ring import RecordRing

IDLE_SHARE = 0.05
"""Processor use, as a fraction of one processor, below which the process and its descendants count
as idle."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _CSTIME = 11, 14
_OWN_THREADS = "aitne-"
_MOST_PLACE = 200


class MainThreadActivity(NamedTuple):
    """Current activity of the main thread: how long it has been waiting, in a collective or for
    something else, and where in the program.
    """

    waiting_s: float
    """Seconds for which this rank has been waiting in a collective without exchanging any data; 0
    if it is in none."""
    idle_s: float
    """Seconds for which the main thread has been waiting for something other than a collective."""
    place: str
    """Place in the program where the main thread is, such as ``load (data.py:12)``."""
    starved_s: float = 0.0
    """Seconds for which the main thread has been ready to run but had no processor, since its
    start; 0 if the kernel does not count them."""
    starved_share: float = 0.0
    """The same since the last observation, as a fraction of that time."""


class MainThreadObserver:
    """Observer that determines whether the main thread computes, waits in a collective, or waits
    for something else. A single other thread calls ``observe`` every few seconds.

    Args:
        ring: records of the collectives that this rank has executed; None if they are not recorded.
        gpu_after_s: seconds for which the main thread must stay at one instruction before the GPU
            is queried. An earlier query could disturb the capture of a CUDA graph.
    """

    def __init__(self, ring: RecordRing | None, gpu_after_s: float) -> None:
        self._ring = ring
        self._gpu_after_s = gpu_after_s
        self._state: tuple[Any, ...] = ()
        self._same_since = self._idle_since = self._observed = self._counted = time.monotonic()
        self._used_s = 0.0
        self._starved_s = _read_starvation_s()

    def observe(self) -> MainThreadActivity:
        """Return the current activity of the main thread, by comparing its state with that at the
        last call.
        """
        frames = sys._current_frames()
        main = threading.main_thread().ident or 0
        frame = frames.pop(main, None)
        del frames[threading.get_ident()]
        runtime = stall_detection.find_runtime_entry(frame)
        program, place = stall_detection.find_program_frame(
            frame if runtime is None else runtime.f_back
        )
        others = _find_collective_frames(frames)
        state = (
            id(runtime),
            id(program),
            -1 if program is None else program.f_lasti,
            others,
            self._ring.read_newest_number() if self._ring is not None else 0,
        )
        collective = (
            runtime is not None or bool(others) or stall_detection.is_in_torch_collective(frame)
        )
        now = time.monotonic()
        same, self._state = state == self._state, state
        if not same:
            self._same_since = self._idle_since = now
        elif not collective and self._is_computing(now):
            self._idle_since = now
        same_s = now - self._same_since
        starved_s, starved_share = self._measure_starvation(now)
        if not collective and same_s >= self._gpu_after_s:
            gpu = gpu_stream_sync.observe_gpu_activity()
            collective = gpu is GpuActivity.COLLECTIVE
            if gpu is GpuActivity.COMPUTING:
                self._idle_since = now
        waiting_s, idle_s = (same_s, 0.0) if collective else (0.0, now - self._idle_since)
        return MainThreadActivity(waiting_s, idle_s, place[:_MOST_PLACE], starved_s, starved_share)

    def _is_computing(self, now: float) -> bool:
        """Return whether the main thread is computing now, or this process and its descendants have
        used processor time since the last call. ``now`` is ``time.monotonic()``.
        """
        before_s, self._used_s = self._used_s, measure_processor_time_s()
        elapsed_s, self._observed = now - self._observed, now
        return (
            _is_runnable(threading.main_thread())
            or self._used_s - before_s > IDLE_SHARE * elapsed_s
        )

    def _measure_starvation(self, now: float) -> tuple[float, float]:
        """Return the seconds for which the main thread has waited for a processor, and their share
        of the time since the last call. ``now`` is ``time.monotonic()``.
        """
        before_s, self._starved_s = self._starved_s, _read_starvation_s()
        elapsed_s, self._counted = now - self._counted, now
        share = (self._starved_s - before_s) / elapsed_s if elapsed_s > 0 else 0.0
        return self._starved_s, min(max(share, 0.0), 1.0)


def measure_processor_time_s() -> float:
    """Return the processor time that this process and its descendants have used, in seconds."""
    reaped = os.times()
    ticks = 0
    waiting, seen = _list_children("self"), set()
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        with contextlib.suppress(OSError):  # it has just ended
            fields = _read_stat_fields(f"/proc/{pid}/stat")
            ticks += sum(int(field) for field in fields[_UTIME : _CSTIME + 1])
            waiting += _list_children(pid)
    return (
        time.process_time() + reaped.children_user + reaped.children_system + ticks / _TICKS_PER_S
    )


def _read_starvation_s() -> float:
    """Return the seconds for which the main thread has been ready to run but had no processor, as
    the kernel counts them in ``schedstat`` (Documentation/scheduler/sched-stats.rst); 0 if it does
    not.
    """
    path = f"/proc/self/task/{threading.main_thread().native_id}/schedstat"
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(path).read_text().split()[1]) / 1e9
    return 0.0


def _list_children(pid: str) -> list[str]:
    found: list[str] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has just ended
            found += path.read_text().split()
    return found


def _is_runnable(thread: threading.Thread) -> bool:
    """Return whether the thread is running on a processor or ready to run."""
    return _read_stat_fields(f"/proc/self/task/{thread.native_id}/stat")[0] == "R"


def _read_stat_fields(path: str) -> list[str]:
    """Return the fields of a ``stat`` file (see proc(5)), beginning with the third, the state."""
    return Path(path).read_text().rpartition(")")[2].split()


def _find_collective_frames(frames: dict[int, FrameType]) -> tuple[int, ...]:
    """Return the stack frames, by ``id``, in which threads other than the main thread wait in a
    collective.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    inside = []
    for ident, frame in frames.items():
        own = names.get(ident, "").startswith(_OWN_THREADS)
        entered = (
            stall_detection.find_transport_frame(frame)
            if own
            else stall_detection.find_runtime_entry(frame)
        )
        if entered is not None:
            inside.append(id(entered))
    return tuple(sorted(inside))
