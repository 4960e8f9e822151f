"""Time in which a process has not answered its supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable

from aitne.host.hung_processes import START_WITHIN_S

MOST_BETWEEN_S = 7.0
"""Maximum number of seconds of the time between two probes that counts.

In a longer gap the supervisor was stopped and could not receive an answer.
"""
LATE_AFTER_S = 5.0


class HangDetector:
    """Detector of a process that no longer answers. It measures the time since the last answer,
    without periods in which the machine was suspended.
    """

    def __init__(self, hung_after_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = 0.0
        self._hung_after_s = hung_after_s
        self._clock = clock
        self._noted = clock()
        self._answered = False

    def note(self, answered: bool) -> None:
        """Record whether the process has answered one probe."""
        now = self._clock()
        between = min(now - self._noted, MOST_BETWEEN_S)
        self.seconds = 0.0 if answered else self.seconds + between
        self._noted = now
        self._answered |= answered

    @property
    def hung(self) -> bool:
        """Return True if the process has not answered for so long that it has to be killed."""
        limit = self._hung_after_s if self._answered else START_WITHIN_S
        return self.seconds >= limit

    @property
    def late(self) -> bool:
        """Return True if the process has not answered yet, or if several heartbeats are missing."""
        return not self._answered or self.seconds > LATE_AFTER_S
