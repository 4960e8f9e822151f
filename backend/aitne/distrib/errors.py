"""What can go wrong, in Horovod's words (horovod.common.exceptions, 0.28)."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed: ranks disagree, a rank is gone, or the job is shutting down."""


class HostsUpdatedInterrupt(RuntimeError):
    """The set of nodes has changed; elastic training begins anew from the last commit."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__()
        self.skip_sync = skip_sync
