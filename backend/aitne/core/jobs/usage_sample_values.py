"""Values that samples of a job contain beside its CPUs, memory and processes.

A value is declared here once: with it, the metrics of live jobs export it, the API describes it, and
the portal draws it on the job's page. The agent measures it (``aitne.agent``).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aitne.core.models.base import Frozen
from aitne.core.platform.metric_names import JOB_LABELS, Metric


class SampleValue(Frozen):
    """One value of a sample: where it is, and how it is exported and drawn."""

    name: str = Field(description="Its name in a sample, or in each entry of the sample's gpu.")
    source: Literal["gpu", "node"] = Field(
        description="gpu: each entry of the sample's gpu may have it; node: the sample itself."
    )
    unit: str = Field(description="Its unit: bytes, ratio (0 to 1), or a symbol such as W.")
    title: str | None = Field(None, description="Title of its chart; null: it is not drawn.")
    figure: Literal["mean", "peak"] = Field(
        "mean", description="The figure by which an ended job is judged."
    )
    combination: Literal["sum", "mean", "max"] = Field("sum", exclude=True)
    """How the numbers of the job's GPUs or nodes become one in the metric."""
    metric: Metric = Field(exclude=True)
    """Metric of live jobs."""


SAMPLE_VALUES: tuple[SampleValue, ...] = (
    SampleValue(
        name="utilization",
        source="gpu",
        unit="ratio",
        title="GPU utilization",
        combination="mean",
        metric=Metric(
            "aitne_job_gpu_utilization_ratio", "Mean utilization of the job's GPUs.", JOB_LABELS
        ),
    ),
    SampleValue(
        name="memory_bytes",
        source="gpu",
        unit="bytes",
        title="GPU memory",
        figure="peak",
        metric=Metric("aitne_job_gpu_memory_used_bytes", "Memory of the GPUs in use.", JOB_LABELS),
    ),
    SampleValue(
        name="power_w",
        source="gpu",
        unit="W",
        title="GPU power",
        metric=Metric("aitne_job_gpu_power_watts", "Power of the job's GPUs.", JOB_LABELS),
    ),
    SampleValue(
        name="energy_j",
        source="gpu",
        unit="J",
        metric=Metric(
            "aitne_job_gpu_energy_joules_total",
            "Energy of the job's GPUs since it started.",
            JOB_LABELS,
        ),
    ),
    SampleValue(
        name="cpu_energy_j",
        source="node",
        unit="J",
        metric=Metric(
            "aitne_job_cpu_energy_joules_total",
            "Energy of the CPUs and memory of the job's whole nodes since it started (RAPL).",
            JOB_LABELS,
        ),
    ),
    SampleValue(
        name="read_bytes",
        source="node",
        unit="bytes",
        metric=Metric(
            "aitne_job_read_bytes_total", "Bytes that were read from storage.", JOB_LABELS
        ),
    ),
    SampleValue(
        name="written_bytes",
        source="node",
        unit="bytes",
        metric=Metric(
            "aitne_job_written_bytes_total", "Bytes that were written to storage.", JOB_LABELS
        ),
    ),
)
DRAWN = tuple(value for value in SAMPLE_VALUES if value.title is not None)
"""Values that the job's page draws, in its order."""
