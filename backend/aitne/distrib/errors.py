"""Exceptions with the names of Horovod (horovod.common.exceptions, 0.28)."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """Error: a collective failed because ranks disagree, a rank is lost, or the job is shutting
    down."""


class HostsUpdatedInterrupt(RuntimeError):
    """Error: the set of nodes has changed; elastic training restarts from the last commit."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__()
        self.skip_sync = skip_sync
