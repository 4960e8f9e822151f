"""How often something is looked at that may go on for a week."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator

LOOKS_PER_INTERVAL = 300
"""After so many the interval doubles: a week is a few thousand looks."""


def slowing(interval_s: float) -> Iterator[None]:
    """Waits before each look, at growing intervals, for ever."""
    while True:
        for _ in range(LOOKS_PER_INTERVAL):
            time.sleep(interval_s)
            yield
        interval_s *= 2
