"""Wait for other processes without fixed delays."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    what: str, check: Callable[[], T], within_s: float = 60.0, poll_s: float = 0.05
) -> T:
    """Ask until the answer is true, and return it; fail with ``what`` when the time is up.

    A machine with many tests at once may take half a minute for what else is there in one second.
    """
    give_up = time.monotonic() + within_s
    while not (found := check()):
        assert time.monotonic() < give_up, f"{what}: not within {within_s:.0f} s"
        time.sleep(poll_s)
    return found
