"""Rendezvous store of a run, in which every wait ends when the run has failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from aitne_train.transport.base import Group, Store

LOOK_S = 0.25
"""Seconds after which a waiting rank notices that the run has failed."""


class RunStore:
    """Store with which the ranks of a run connect their transports.

    Args:
        store: store that keeps the values.
        check: function that raises ``TransportError`` if the run has failed.
    """

    def __init__(self, store: Store, check: Callable[[], None]) -> None:
        self._store = store
        self._check = check

    def set(self, key: str, value: bytes) -> None:
        """Store ``value`` under ``key``. Raises ``ConnectionError``."""
        self._store.set(key, value)

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait for the value and return it.

        Raises ``TimeoutError``, ``ConnectionError``, or ``TransportError`` if the run has failed.
        """
        until = time.monotonic() + timeout_s
        while True:
            self._check()
            left_s = until - time.monotonic()
            try:
                return self._store.get(key, max(0.0, min(left_s, LOOK_S)))
            except TimeoutError as error:
                if left_s <= LOOK_S:
                    raise TimeoutError(f"no rank has set {key} within {timeout_s:g} s") from error


def check_run(group: Group) -> None:
    """Raise ``TransportError`` if the run of the group has failed, as every use of its store does."""
    with suppress(TimeoutError):
        group.store.get(f"{group.name}/check", 0.0)
