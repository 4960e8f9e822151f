"""Says which ranks keep the others waiting. Variables are Horovod's."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

log = logging.getLogger("aitne.distrib")

Check = Callable[[float, float], list[str]]
"""Given how long is late, and how long is too late (0: never): what is late, in words."""


class Stall:
    """A thread at rank 0 that sleeps while nobody waits, and looks once a minute while somebody does.

    ``HOROVOD_STALL_CHECK_TIME_SECONDS`` (60) is what is late, ``HOROVOD_STALL_SHUTDOWN_TIME_SECONDS``
    (0: never) what ends the run, ``HOROVOD_STALL_CHECK_DISABLE=1`` switches both off.
    """

    def __init__(self, check: Check) -> None:
        environ = os.environ
        self._check = check
        self._late_s = float(environ.get("HOROVOD_STALL_CHECK_TIME_SECONDS", "60"))
        self._shutdown_s = float(environ.get("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0"))
        self._off = (
            environ.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in {"", "0"} or self._late_s <= 0
        )
        self._somebody = False
        self._waits = threading.Event()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, somebody_waits: bool) -> None:
        """Called whenever that may have changed; costs nothing when it has not."""
        self._somebody = somebody_waits
        if not somebody_waits or self._off or self._waits.is_set():
            return
        self._waits.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="aitne-stall", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        self._waits.set()

    def _run(self) -> None:
        period = min(self._late_s, self._shutdown_s) if self._shutdown_s > 0 else self._late_s
        while True:
            self._waits.wait()
            if self._end.wait(period):
                return
            if not self._somebody:
                self._waits.clear()
                if self._somebody or self._end.is_set():  # since it was asked
                    self._waits.set()
                continue
            for words in self._check(period / 2, self._shutdown_s):
                log.warning("A collective is late: %s.", words)
