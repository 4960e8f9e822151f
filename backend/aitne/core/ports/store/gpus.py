"""Part of the store for the GPUs that jobs of the platform use, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class GpuUse(NamedTuple):
    """Number of GPUs that one job has been allocated or, if ``nodes`` is empty, that a pending job
    requests.
    """

    nodes: tuple[str, ...]
    type: str | None
    """GPU type that the job requested; None: any type."""
    gpus: int
    """Number of GPUs on all nodes of the job together."""
    ends_at: datetime | None
    """Time at which the job reaches its time limit; None: unknown."""


class GpuStore(Protocol):
    """Query of the GPUs that running jobs use and pending jobs request; used to predict when GPUs
    become free.
    """

    async def gpus_held(self) -> Sequence[GpuUse]:
        """Return the GPUs of each job that has an allocation with GPUs, without its owner."""
        ...

    async def gpus_awaited(self) -> Sequence[GpuUse]:
        """Return the GPUs of each pending job that requests GPUs, oldest first; for an array job
        one entry for each pending task.
        """
        ...
