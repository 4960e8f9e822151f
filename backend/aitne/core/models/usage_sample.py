"""Resource usage of a job."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from aitne.core.models.base import Frozen, UtcTime

_MOST = 1 << 62


def _remove_invalid_amounts(value: object) -> object:
    """Return the values of GPUs without those that are no amounts, such as NaN: a job's own program
    could send them, and they would spoil each sum.
    """
    if not isinstance(value, list | tuple):
        return value
    return [
        {name: amount for name, amount in gpu.items() if _is_amount(name, amount)}
        if isinstance(gpu, dict)
        else gpu
        for gpu in value
    ]


def _is_amount(name: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= (1 if name == "utilization" else _MOST)


class Sample(Frozen):
    """Sample of the resource usage of a job's processes on one node, at one time."""

    time: UtcTime
    node: str
    cpu: float = Field(ge=0, allow_inf_nan=False)
    """Mean number of CPUs in use since the previous sample: 1.0 is one fully used core."""
    memory_bytes: int = Field(ge=0)
    processes: int = Field(0, ge=0)
    """Number of processes of the job on the node."""
    gpu: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_remove_invalid_amounts)] = ()
    """Values of each GPU: ``index``, ``utilization`` (0..1), ``memory_bytes``; if measured also
    ``ecc_errors`` (uncorrected) and the others of ``core.jobs.usage_sample_values``."""
    cpu_energy_j: float | None = Field(
        None,
        ge=0,
        le=1e18,
        allow_inf_nan=False,
        description="Energy of the node's CPUs and memory since the job's start (RAPL), if the job "
        "has the whole node; null: not measured.",
    )
