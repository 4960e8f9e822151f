"""Growing intervals for checks of jobs that may run for a week."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator

LOOKS_PER_INTERVAL = 300
"""Number of checks after which the interval doubles: a week takes a few thousand checks."""


def slowing(interval_s: float) -> Iterator[None]:
    """Yield without end, each time after a sleep: first of ``interval_s`` seconds, later of longer
    ones.
    """
    while True:
        for _ in range(LOOKS_PER_INTERVAL):
            time.sleep(interval_s)
            yield
        interval_s *= 2
