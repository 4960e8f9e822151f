"""How far this rank is in its channels. Others care only while a rank has joined."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """Keeps the last step of each channel; tells it while that is wanted.

    ``begin`` and ``want`` may run at once: one of them sees what the other has written first.

    Args:
        tell: rank 0 of a channel and a step.
    """

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._steps: dict[int, int] = {}
        self.wanted = False

    def begin(self, channel: int, step: int) -> None:
        """This rank has come to a step. Tells nobody."""
        self._steps[channel] = step

    def want(self, wanted: bool) -> None:
        """Whether steps are to be told from now on; those begun are told at once."""
        self.wanted = wanted
        if wanted:
            self.report()

    def report(self) -> None:
        """Tell the last step of every channel."""
        for channel, step in list(self._steps.items()):
            self._tell(channel, step)
