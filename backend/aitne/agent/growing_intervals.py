"""Growing intervals for checks of jobs that may run for a week."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator

LOOKS_PER_INTERVAL = 300
"""Number of checks after which the interval doubles, so that a week needs only a few thousand
checks."""


def sleep_growing_intervals(interval_s: float) -> Iterator[None]:
    """Yield without end, after sleeping ``interval_s`` seconds each time. The interval doubles
    after every ``LOOKS_PER_INTERVAL`` times."""
    while True:
        for _ in range(LOOKS_PER_INTERVAL):
            time.sleep(interval_s)
            yield
        interval_s *= 2
