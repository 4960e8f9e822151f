"""Detection of stalled collectives on rank 0: warnings that name the missing ranks, and the end of
the run.

The environment variables are those of Horovod.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from aitne_train.interruptible_event import Flag

log = logging.getLogger("aitne_train")

Check = Callable[[float, float], list[str]]
"""Function that returns messages about overdue requests. Its arguments are the seconds after which
a request is reported, and those after which the run ends (0: never)."""


class StallInspector:
    """Thread on rank 0 that detects stalled collectives: it sleeps while no rank waits for another,
    and otherwise checks the waiting requests regularly.

    A request that waits longer than ``HOROVOD_STALL_CHECK_TIME_SECONDS`` (default 60) causes a
    warning; after ``HOROVOD_STALL_SHUTDOWN_TIME_SECONDS`` (default 0: never) the run ends.
    ``HOROVOD_STALL_CHECK_DISABLE=1`` disables both.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._late_s, self._shutdown_s = _read_limits()
        self._off = self._late_s <= 0
        self._any_waits = False
        self._waits = Flag()
        self._end = Flag()
        self._thread: threading.Thread | None = None

    def set_watching(self, any_waits: bool) -> None:
        """Set whether any rank waits for another; returns immediately."""
        self._any_waits = any_waits
        if not any_waits or self._off or self._waits.is_set():
            return
        self._waits.set()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch_collectives, name="aitne-stall", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Stop the thread that checks for stalls."""
        self._end.set()
        self._waits.set()

    def _watch_collectives(self) -> None:
        period = min(self._late_s, self._shutdown_s) if self._shutdown_s > 0 else self._late_s
        while True:
            self._waits.wait()
            if self._end.wait(period):
                return
            if not self._any_waits:
                self._waits.clear()
                if self._any_waits or self._end.is_set():  # changed since the check
                    self._waits.set()
                continue
            for words in self._check(period / 2, self._shutdown_s):
                log.warning("A collective is late: %s.", words)


class StepLimit:
    """Context manager that limits how long an optimizer's exchange step waits for other ranks, to
    ``HOROVOD_STALL_SHUTDOWN_TIME_SECONDS``.

    Exchange steps are not negotiated, so rank 0 does not know that ranks wait in them. Therefore
    each rank limits its own wait.

    Args:
        expire: function that is called once, with the seconds that a step has waited, on a thread
            of this object.
    """

    def __init__(self, expire: Callable[[float], None]) -> None:
        self._expire = expire
        late_s, shutdown_s = _read_limits()
        self._limit_s = shutdown_s if late_s > 0 else 0.0
        self._began: dict[int, float] = {}
        self._end = Flag()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._limit_s <= 0:
            return
        self._began[threading.get_ident()] = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch_steps, name="aitne-limit", daemon=True
            )
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._began.pop(threading.get_ident(), None)

    def close(self) -> None:
        """Stop the thread that measures the waits."""
        self._end.set()

    def _watch_steps(self) -> None:
        while not self._end.wait(min(self._limit_s / 4, 1.0)):
            oldest = min(tuple(self._began.values()), default=None)
            waited_s = 0.0 if oldest is None else time.monotonic() - oldest
            if waited_s >= self._limit_s:
                self._expire(waited_s)
                return


def _read_limits() -> tuple[float, float]:
    """Return the seconds after which a waiting request is reported (0: no checks), and the seconds
    after which the run ends (0: never).
    """
    late_s = float(os.environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS", "60"))
    off = os.environ.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in {"", "0"}
    shutdown_s = float(os.environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0"))
    return 0.0 if off else late_s, shutdown_s
