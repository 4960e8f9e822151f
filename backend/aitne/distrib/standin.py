"""What a rank that has joined still does: takes part in the exchanges of others, with zeros."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from aitne.distrib.errors import HorovodInternalError

log = logging.getLogger("aitne.distrib")

StepCallback = Callable[[int], None]


class StandIn:
    """Calls back on a thread of its own, one step after another.

    Not on the thread that carries out responses: other ranks may need one of those before they come to
    the step that this one would wait in.

    Args:
        fail: What to do when a callback raised. Says whether others do not know of it yet.
    """

    def __init__(self, fail: Callable[[str, bool], None]) -> None:
        self._fail = fail
        self._callbacks: dict[int, StepCallback] = {}
        self._steps: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._under_way = 0

    def register(self, channel: int, callback: StepCallback | None) -> None:
        """Whom to call for steps of a channel; None: nobody."""
        if callback is None:
            self._callbacks.pop(channel, None)
        else:
            self._callbacks[channel] = callback

    def take_part(self, channel: int, step: int) -> None:
        """Others have begun this step. Called by one thread at a time; waits for nobody."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="aitne-joined", daemon=True)
            self._thread.start()
        with self._changed:
            self._under_way += 1
        self._steps.put((channel, step))

    def settle(self) -> None:
        """Return when this rank's part in every step it was told of is over: what a callback uses is the
        caller's again."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way)

    def close(self, timeout_s: float) -> None:
        """End the thread, or leave it when a callback does not return."""
        self._steps.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        failed = False
        while (found := self._steps.get()) is not None:
            try:
                if not failed:
                    self._take_part(*found)
            except HorovodInternalError as error:
                failed = True
                self._fail(str(error), False)
            except Exception as error:
                failed = True
                log.exception("A rank that has joined could not take part")
                self._fail(f"a rank that has joined could not take part: {error}", True)
            finally:
                with self._changed:
                    self._under_way -= 1
                    self._changed.notify_all()

    def _take_part(self, channel: int, step: int) -> None:
        callback = self._callbacks.get(channel)
        if callback is not None:
            callback(step)
