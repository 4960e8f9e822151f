"""Python stacks of all threads of a rank, even if its process cannot answer.

A rank that gets a request for its stacks answers on another thread than the one that hangs. If it
cannot, because a library holds the interpreter's lock (GIL), another rank on the same node sends
the process a signal; the interpreter's fault handler then writes the stacks, without that lock, to
a file in memory. If the process is stopped and cannot even do that, its process state is reported.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

MOST_CHARACTERS = 64 * 1024
"""Maximum number of characters of the stacks of one rank; longer text is cut off."""

_WATCH = {"aitne-control", "aitne-guard", "aitne-profile", "aitne-stall", "aitne-timeline"}
_TAKERS = (
    "/aitne_train/stacks.py",
    "/aitne_train/stall_monitor.py",
    "/aitne_train/control_channel.py",
)
_SIGNAL = signal.SIGRTMAX - 3
# Real-time signals have no meaning of their own, and programs that use some count from SIGRTMIN up.
_ANSWER_S = 2.0
_STATES = {
    "D": "waits in the kernel for a device or a file system and cannot be interrupted",
    "T": "is stopped (SIGSTOP or job control)",
    "t": "is stopped by a debugger",
    "Z": "has ended",
    "X": "has ended",
}


def format_own_stacks() -> str:
    """Return the stacks of all threads of this process as text, the main thread first.

    Threads and frames that belong to the monitor itself are omitted.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames: dict[int, FrameType | None] = dict(sys._current_frames())
    me = threading.get_ident()
    frames[me] = _find_caller(frames[me])
    order = sorted(frames, key=lambda ident: (ident != main, names.get(ident, "")))
    return "\n".join(
        f"{names.get(ident, f'thread {ident}')}:\n{_format_stack(frames[ident])}"
        for ident in order
        if names.get(ident) not in _WATCH
    )[:MOST_CHARACTERS]


@cache
def build_address() -> Mapping[str, Any]:
    """Return what another process of this user must pass to ``request_stacks`` to get the stacks of this
    process: a JSON object.

    It is valid as long as this process lives.
    """
    file = os.memfd_create("aitne-stacks", os.MFD_CLOEXEC)
    faulthandler.register(_SIGNAL, file=file, all_threads=True)
    pid = os.getpid()
    return {"pid": pid, "started": _read_stat(pid)[1], "file": file}


def request_stacks(whose: Mapping[str, Any]) -> str:
    """Return the stacks of another process on this node, or a text that states why they are not
    available.

    ``whose`` is the result of ``build_address`` in that process. Takes at most 2 s.
    """
    pid = int(whose["pid"])
    try:
        state, started = _read_stat(pid)
        if started != whose["started"]:
            return f"process {pid} has ended"
        if state in _STATES:
            return f"process {pid} {_STATES[state]}"
        file = Path(f"/proc/{pid}/fd/{whose['file']}")
        before = file.stat().st_size
        os.kill(pid, _SIGNAL)
        text = _wait_for_text(file, before)
    except (FileNotFoundError, ProcessLookupError):
        return f"process {pid} has ended"
    except PermissionError as error:
        return f"process {pid} cannot be asked: {error.strerror}"
    if not text:
        return f"process {pid} does not answer a signal"
    return (
        f"(its interpreter is held by native code; innermost call first)\n{text[:MOST_CHARACTERS]}"
    )


def _wait_for_text(file: Path, before: int) -> str:
    """Return the text of the file after the first ``before`` bytes, when the file has stopped
    growing.
    """
    until = time.monotonic() + _ANSWER_S
    size = before
    while time.monotonic() < until:
        time.sleep(0.05)
        now = file.stat().st_size
        if now == size and now > before:
            break
        size = now
    with file.open("rb") as stream:
        stream.seek(before)
        return stream.read(MOST_CHARACTERS).decode(errors="replace")


def _read_stat(pid: int) -> tuple[str, str]:
    """Return the state and the start time of a process, as text from its ``stat`` file (see
    proc(5)).

    The start time distinguishes it from a later process with the same PID.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], fields[19]


def _find_caller(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame that does not belong to the monitor; None if there is none."""
    while frame is not None and frame.f_code.co_filename.endswith(_TAKERS):
        frame = frame.f_back
    return frame


def _format_stack(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame)) if frame is not None else ""
