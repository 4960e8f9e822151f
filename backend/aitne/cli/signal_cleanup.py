"""Cleanup of unfinished work when a signal ends a command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise ``SystemExit`` on SIGTERM or when the terminal is closed, so that commands inside this
    context clean up as after an error."""

    def raise_exit(number: int, _: FrameType | None) -> None:
        # Once: the cleanup must not be interrupted by a second signal.
        for signum in _ASKED:
            signal.signal(signum, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {signum: signal.signal(signum, raise_exit) for signum in _ASKED}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
