"""Resource usage of a job."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime


class Sample(Frozen):
    """Sample of the resource usage of a job's processes on one node, at one time."""

    time: UtcTime
    node: str
    cpu: float = Field(ge=0)
    """Mean number of CPUs in use since the previous sample: 1.0 is one fully used core."""
    memory_bytes: int = Field(ge=0)
    processes: int = Field(0, ge=0)
    """Number of processes of the job on the node."""
    gpu: tuple[dict[str, Any], ...] = ()
    """Values of each GPU: ``index``, ``utilization`` (0..1), ``memory_bytes``; if measured also
    ``power_w``, ``energy_j`` since the job's start, and ``ecc_errors`` (uncorrected)."""
    cpu_energy_j: float | None = Field(
        None,
        ge=0,
        le=1e18,
        description="Energy of the node's CPUs and memory since the job's start (RAPL), if the job "
        "has the whole node; null: not measured.",
    )
