"""Heart monitor of a rank group's controller, which recognizes new engines immediately.

ipyparallel's heart monitor pings once a period and recognizes at the next ping which engines have
answered, so the start of the group could take up to two periods longer. It runs in a separate
process.
"""

from __future__ import annotations

from typing import Any

from ipyparallel.controller import heartmonitor as module
from tornado.ioloop import PeriodicCallback

_START_MS = 50


class RankHeartMonitor(module.HeartMonitor):
    """ipyparallel's heart monitor with additional, frequent pings until all engines of the group
    have answered.

    Unanswered additional pings do not count as missed heartbeats.
    """

    size = 0
    """Number of engines of the group."""

    def start(self) -> None:
        """Begin to ping the engines."""
        super().start()
        self._often = PeriodicCallback(self._ping, _START_MS)
        self._often.start()

    def _ping(self) -> None:
        self.ping_stream.send(str(self.lifetime).encode())
        self.ping_stream.flush()

    def handle_pong(self, message: list[bytes]) -> None:
        """Process an engine's answer to a ping, and report new engines to the controller."""
        super().handle_pong(message)
        new: set[Any] = self.responses - self.hearts
        if new:
            self.handle_new_hearts(new)
            if len(self.hearts) >= self.size:
                self._often.stop()


def install_heart_monitor(size: int) -> None:
    """Make ipyparallel's controllers in this process use ``RankHeartMonitor``. ``size`` is the
    number of engines of the group."""
    RankHeartMonitor.size = size
    module.HeartMonitor = RankHeartMonitor
