"""Cleanup when a signal ends a verb, as after an error."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def tidily() -> Iterator[None]:
    """Undo unfinished work on SIGTERM or a closed terminal: within this context they raise
    ``SystemExit``."""

    def end(number: int, _: FrameType | None) -> None:
        # Once: what is undone must not be broken off by the second of two signals.
        for each in _ASKED:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {each: signal.signal(each, end) for each in _ASKED}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
