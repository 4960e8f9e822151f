"""Event of a thread that signal handlers may interrupt."""

from __future__ import annotations

import contextlib
import time
from queue import Empty, SimpleQueue

_LOOK_S = 1.0
"""Time between two looks of a waiting thread, which an interrupt of another one may have deprived of
its wake-up."""


class Flag:
    """``threading.Event`` whose methods may be interrupted by the exception of a signal handler. An
    Event keeps its lock if that happens between two of its instructions, and every later call waits
    for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def set(self) -> None:
        """Set the flag and wake all threads that wait for it."""
        self._is_set = True
        self._bell.put(None)

    def clear(self) -> None:
        """Reset the flag, so that later calls of ``wait`` wait."""
        self._is_set = False
        with contextlib.suppress(Empty):
            while True:
                self._bell.get_nowait()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the flag is set, for at most ``timeout_s`` seconds (None: no limit); return
        whether it is set.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = _LOOK_S if until is None else min(_LOOK_S, until - time.monotonic())
            if left_s <= 0:
                break
            with contextlib.suppress(Empty):
                self._bell.get(timeout=left_s)
                self._bell.put(None)  # for other threads that wait
        return self._is_set
