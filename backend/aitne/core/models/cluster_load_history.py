"""Load of the cluster over time."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime


class LoadPeriod(StrEnum):
    """Period for which the portal shows the load of the cluster."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class ClusterLoad(Frozen):
    """Resources of the nodes that accept jobs, how much of them is allocated, and the number of
    pending jobs, of the cluster or of one partition: one sample, or means over samples.
    """

    time: UtcTime = Field(description="Start of the interval over which the means are taken.")
    cpu_total: float = Field(description="Number of CPUs of the nodes that accept jobs.")
    cpu_used: float = Field(description="Number of them that are allocated to jobs.")
    memory_total_bytes: float = Field(description="Memory of the nodes that accept jobs.")
    memory_used_bytes: float = Field(description="Memory of them that is allocated to jobs.")
    gpu_total: float = Field(description="Number of GPUs of the nodes that accept jobs.")
    gpu_used: float = Field(description="Number of them that are allocated to jobs.")
    waiting_jobs: float = Field(description="Number of pending jobs; each task of an array counts.")


LOAD_VALUES = tuple(name for name in ClusterLoad.model_fields if name != "time")
"""Names of the fields of a sample, without its time."""
