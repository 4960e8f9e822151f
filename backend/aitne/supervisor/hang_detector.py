"""Detection of hung processes, from the time for which a process has not answered."""

from __future__ import annotations

import time
from collections.abc import Callable

from aitne.local_system.hung_restart_records import IDLE_SHARE, START_WITHIN_S

MOST_BETWEEN_S = 7.0
"""Maximum number of seconds between two probes that are counted as time without an answer.

If the interval is longer, the supervisor itself was stopped and could not receive an answer.
"""
LATE_AFTER_S = 5.0


class HangDetector:
    """Detector of a process that no longer answers. It measures the time since the last answer,
    without periods in which the machine was suspended.
    """

    def __init__(self, hung_after_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = 0.0
        self._idle_s = 0.0
        self._hung_after_s = hung_after_s
        self._clock = clock
        self._noted = clock()
        self._answered = False

    @property
    def is_starting(self) -> bool:
        """Return True until the process has answered for the first time."""
        return not self._answered

    def record_probe(self, answered: bool, *, has_progressed: bool = False) -> None:
        """Record the result of one probe.

        Args:
            answered: whether the process has answered.
            has_progressed: whether the process is still working on its start; only used before the first
                answer.
        """
        now = self._clock()
        between = min(now - self._noted, MOST_BETWEEN_S)
        self.seconds = 0.0 if answered else self.seconds + between
        self._idle_s = 0.0 if answered or has_progressed else self._idle_s + between
        self._noted = now
        self._answered |= answered

    @property
    def is_hung(self) -> bool:
        """Return whether the process has not answered for so long that it should be killed."""
        if self._answered:
            return self.seconds >= self._hung_after_s
        idle = self._idle_s >= IDLE_SHARE * self._hung_after_s
        return idle or self.seconds >= START_WITHIN_S

    @property
    def is_late(self) -> bool:
        """Return whether the process has never answered, or not within the last ``LATE_AFTER_S``
        seconds.
        """
        return not self._answered or self.seconds > LATE_AFTER_S
