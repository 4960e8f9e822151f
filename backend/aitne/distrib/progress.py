"""Progress of this rank in its channels, which other ranks need only while a rank has joined."""

from __future__ import annotations

from collections.abc import Callable


class StepProgress:
    """The last exchange step of each channel on this rank, which is reported to rank 0 while that
    is requested.

    ``begin`` and ``want`` may run concurrently: one of them sees what the other has written first.

    Args:
        tell: reports a channel and a step to rank 0.
    """

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._steps: dict[int, int] = {}
        self.reporting = False

    def begin(self, channel: int, step: int) -> None:
        """Record that this rank has started the step ``step`` of ``channel``, without
        reporting it.
        """
        self._steps[channel] = step

    def want(self, enabled: bool) -> None:
        """Set whether steps are to be reported from now on.

        Steps that were already started are reported immediately.
        """
        self.reporting = enabled
        if enabled:
            self.report()

    def report(self) -> None:
        """Report the last step of every channel."""
        for channel, step in list(self._steps.items()):
            self._tell(channel, step)
