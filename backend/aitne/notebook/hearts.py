"""Heart monitor of a rank group's controller: ipyparallel's, which notices new engines at once.

As it comes, it pings once a period, and notices at the next ping that an engine has answered, so
that the start of the group would take up to two periods longer. It runs in a process of its own.
"""

from __future__ import annotations

from typing import Any

from ipyparallel.controller import heartmonitor as module
from tornado.ioloop import PeriodicCallback

_START_MS = 50


class RankHeartMonitor(module.HeartMonitor):
    """Heart monitor that pings often until all engines of the group have answered.

    These pings do not count as missed ones.
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
        """Note that an engine has answered, and report a new one to the controller."""
        super().handle_pong(message)
        new: set[Any] = self.responses - self.hearts
        if new:
            self.handle_new_hearts(new)
            if len(self.hearts) >= self.size:
                self._often.stop()


def use(size: int) -> None:
    """Make controllers of this process use it for a group of ``size`` engines."""
    RankHeartMonitor.size = size
    module.HeartMonitor = RankHeartMonitor
