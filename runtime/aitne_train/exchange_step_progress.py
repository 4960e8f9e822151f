"""Last exchange step of each channel on this rank. Rank 0 needs this information only while a rank
waits in ``join``.
"""

from __future__ import annotations

from collections.abc import Callable


class StepProgress:
    """The last exchange step of each channel on this rank, reported to rank 0 while that is
    requested.

    ``begin_step`` and ``set_reporting`` may run concurrently on two threads: each step is then reported by at
    least one of them.

    Args:
        tell: function that reports a channel and a step to rank 0.
    """

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._steps: dict[int, int] = {}
        self.reporting = False

    def begin_step(self, channel: int, step: int) -> None:
        """Record, without reporting it, that this rank has started the step ``step`` of
        ``channel``.
        """
        self._steps[channel] = step

    def set_reporting(self, enabled: bool) -> None:
        """Set whether steps are to be reported; if so, report the steps started so far immediately."""
        self.reporting = enabled
        if enabled:
            self.report_steps()

    def report_steps(self) -> None:
        """Report the last step of every channel."""
        for channel, step in list(self._steps.items()):
            self._tell(channel, step)
