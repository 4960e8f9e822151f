"""Decorator that repeats a training function from the last commit after a failed collective."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from aitne_train import _collective_submission, lifecycle
from aitne_train.elastic.state import State
from aitne_train.errors import HorovodInternalError, HostsUpdatedInterrupt

T = TypeVar("T")

_FRUITLESS = 3
"""Number of consecutive failures without a commit after which ``HorovodInternalError`` is raised to
the caller."""

_log = logging.getLogger(__name__)


class NotificationManager:
    """Registry of the elastic states that are notified when the set of nodes changes; a change is
    reported by a call of ``handle_hosts_updated``.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: set[State] = set()

    def register_listener(self, listener: State) -> None:
        """Add a state to those that are notified of changes of the nodes."""
        with self._lock:
            self._listeners.add(listener)

    def remove_listener(self, listener: State) -> None:
        """Remove a state from those that are notified of changes of the nodes."""
        with self._lock:
            self._listeners.discard(listener)

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Notify the registered states that the set of nodes has changed. ``timestamp`` orders the
        notifications, and ``update_res`` is the kind of change, a ``HostUpdateResult``.
        """
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = NotificationManager()


def run(func: Callable[..., T]) -> Callable[..., T]:
    """Decorate a training function whose first argument is a ``State``.

    The state is synchronized between ranks before the function is called. If the function raises
    ``HorovodInternalError``, the state is restored from the last commit. After this, and after
    ``HostsUpdatedInterrupt``, all ranks connect again (``shutdown`` and ``init``), the state's
    reset callbacks run, and the function is called again. A program must not use collectives
    between ``init`` and the call of the function.

    ``HorovodInternalError`` is raised to the caller if the function fails three times without a
    commit in between, or if the ranks cannot connect again because a process has ended.
    """
    return run_fn(func, _reconnect)


def run_fn(func: Callable[..., T], reset: Callable[[], None]) -> Callable[..., T]:
    """Decorate a training function as ``run`` does, but call ``reset`` to connect the ranks again."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> T:
        notification_manager.register_listener(state)
        failures = 0
        skip_sync = False
        try:
            while True:
                commits = state._commits
                try:
                    if not skip_sync:
                        state.sync()
                    return func(state, *args, **kwargs)
                except HorovodInternalError as error:
                    failures = 1 if state._commits > commits else failures + 1
                    if failures == _FRUITLESS:
                        raise
                    _log.warning("Going back to the last commit: %s", error)
                    state.restore()
                    skip_sync = False
                except HostsUpdatedInterrupt as interrupt:
                    skip_sync = interrupt.skip_sync
                reset()
                state.on_reset()
        finally:
            notification_manager.remove_listener(state)

    return wrapper


def _reconnect() -> None:
    lifecycle.shutdown()
    _collective_submission.discard_handles()
    lifecycle.init()
