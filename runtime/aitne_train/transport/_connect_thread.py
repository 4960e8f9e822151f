"""Thread that connects a transport by a function of PyTorch, which signals do not interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from aitne_train.failure_aware_rendezvous_store import LOOK_S, check_run
from aitne_train.interruptible_event import Flag
from aitne_train.transport.base import Group

T = TypeVar("T")


class ConnectThread(Generic[T]):
    """Thread that runs a function which waits for other ranks. A signal, or the failure of the run,
    ends the wait for its result, but the thread only when PyTorch's own timeout is over.

    Args:
        function: function to run, once.
        discard: function that is called with a result for which the caller no longer waits.
    """

    def __init__(self, function: Callable[[], T], discard: Callable[[T], None]) -> None:
        self._function = function
        self._discard_result = discard
        self._lock = threading.Lock()
        self._ended = Flag()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.left = False
        """Whether the wait for the result has ended without it."""

    def wait_for_result(self, group: Group) -> T:
        """Run the function and return its result; raises its exception. May be called once.

        Raises ``TransportError`` if the run of the group has failed.
        """
        try:
            threading.Thread(target=self._run_function, name="aitne-connect", daemon=True).start()
            while not self._ended.wait(LOOK_S):
                check_run(group)
            if self._error is not None:
                raise self._error
            return self._results[0]
        except BaseException:
            self.left = True
            self._discard_all_results()
            raise

    def _run_function(self) -> None:
        if self.left:
            return
        try:
            self._results.append(self._function())
        except BaseException as error:  # noqa: BLE001 - ``wait_for_result`` raises it again
            self._error = error
        self._ended.set()
        if self.left:
            self._discard_all_results()

    def _discard_all_results(self) -> None:
        self._error = None  # its frames refer to this object and would keep connections open
        with self._lock:
            results, self._results = self._results, []
        for result in results:
            self._discard_result(result)
