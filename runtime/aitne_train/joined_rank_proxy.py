"""Participation of a rank that waits in ``join`` in the exchange steps of other ranks, with zeros."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from aitne_train.errors import HorovodInternalError
from aitne_train.interruptible_event import Flag

log = logging.getLogger("aitne_train")

StepCallback = Callable[[int], None]


class JoinedRankProxy:
    """Thread that takes part with zeros in the exchange steps of other ranks while this rank waits
    in ``join``; it calls a callback of each channel.

    It is not the thread that executes responses, because other ranks may need a response before
    they reach the step in which this thread waits.

    Args:
        fail: function that is called with the exception of a callback. Its second argument is True
            if the other ranks do not know of the failure yet.
    """

    def __init__(self, fail: Callable[[str, bool], None]) -> None:
        self._fail = fail
        self._callbacks: dict[int, StepCallback] = {}
        self._steps: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._changed = Flag()
        self._under_way = 0

    def register(self, channel: int, callback: StepCallback | None) -> None:
        """Register the callback that takes part in the steps of a channel; None removes it."""
        if callback is None:
            self._callbacks.pop(channel, None)
        else:
            self._callbacks[channel] = callback

    def queue_step(self, channel: int, step: int) -> None:
        """Queue the step ``step`` of ``channel``, which other ranks have started, and return
        immediately. Only one thread may call this at a time.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._take_part_in_steps, name="aitne-joined", daemon=True
            )
            self._thread.start()
        with self._lock:
            self._under_way += 1
        self._steps.put((channel, step))

    def wait_for_steps(self) -> None:
        """Wait until this rank has taken part in every queued step, so that the caller may use the
        channels again.
        """
        while True:
            self._changed.clear()
            with self._lock:
                if not self._under_way:
                    return
            self._changed.wait()

    def close(self, timeout_s: float) -> None:
        """Stop the thread; if a callback does not return within ``timeout_s`` seconds, leave the
        thread running.
        """
        self._steps.put(None)
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _take_part_in_steps(self) -> None:
        failed = False
        while (step := self._steps.get()) is not None:
            try:
                if not failed:
                    self._take_part_in_step(*step)
            except HorovodInternalError as error:
                failed = True
                self._fail(str(error), False)
            except Exception as error:
                failed = True
                log.exception("A rank that has joined could not take part")
                self._fail(f"a rank that has joined could not take part: {error}", True)
            finally:
                with self._lock:
                    self._under_way -= 1
                self._changed.set()

    def _take_part_in_step(self, channel: int, step: int) -> None:
        callback = self._callbacks.get(channel)
        if callback is not None:
            callback(step)
