"""Thread that processes queued items in order. A caller that waits for the items processes those
not yet started itself, because waking the thread costs more than a small item.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Worker(Generic[T]):
    """Thread that calls a function for each queued item, in order.

    If a call fails, the items after it are discarded, and the next ``drain`` raises the exception.
    """

    def __init__(self, run: Callable[[T], None], name: str) -> None:
        self._run = run
        self._name = name
        self._waiting: deque[T] = deque()
        self._running = threading.Lock()
        self._wake: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def put(self, job: T) -> None:
        """Add an item at the end of the queue."""
        self._waiting.append(job)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run_waiting_jobs, name=self._name, daemon=True
            )
            self._thread.start()
        self._wake.put(True)

    def drain(self) -> tuple[int, int] | None:
        """Wait until all queued items are done. The caller processes those that the thread has not
        started.

        Returns:
            Start and end (``time.monotonic_ns()``) of the time for which the caller waited for the
                thread; None if it did not wait.

        Raises:
            BaseException: the exception of a failed call.
        """
        began_ns = time.monotonic_ns() if self._running.locked() else None
        with self._running:  # never kept by the exception of a signal handler
            waited = None if began_ns is None else (began_ns, time.monotonic_ns())
            while self._waiting:
                self._run_next()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return waited

    def close(self) -> None:
        """Stop the thread after its current item and discard the queued items."""
        self._waiting.clear()
        self._wake.put(False)

    def _run_waiting_jobs(self) -> None:
        while self._wake.get():
            with self._running:
                if self._waiting:
                    self._run_next()

    def _run_next(self) -> None:
        job = self._waiting.popleft()
        if self._failure is not None:
            return
        try:
            self._run(job)
        except BaseException as error:  # noqa: BLE001 - ``drain`` raises it again
            self._failure = error
