"""The store's part about which GPUs the platform's jobs hold, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class GpuUse(NamedTuple):
    """Number of GPUs that one job holds, or for which it waits (then ``nodes`` is empty)."""

    nodes: tuple[str, ...]
    type: str | None
    """As it was asked for; None: any."""
    gpus: int
    """On all its nodes together."""
    ends_at: datetime | None
    """Time at which its time limit ends, as far as that is known."""


class GpuStore(Protocol):
    """Query of the GPUs that jobs hold and wait for; used to show when GPUs become free."""

    async def gpus_held(self) -> Sequence[GpuUse]:
        """Return the GPUs held by each job that has nodes and GPUs, without the owners."""
        ...

    async def gpus_awaited(self) -> Sequence[GpuUse]:
        """Return the GPUs of every job that waits for GPUs, oldest first; for an array job one
        entry for each waiting task.
        """
        ...
