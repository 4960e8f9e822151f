"""Exceptions of the training runtime, with Horovod's names (horovod.common.exceptions, 0.28)."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """Error: a collective failed because ranks disagree, the connection to a rank is lost, or the
    runtime was shut down.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """Exception: the set of nodes has changed; elastic training connects the ranks again and calls
    the training function again.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__()
        self.skip_sync = skip_sync
