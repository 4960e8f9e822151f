"""Samples of the metrics that dashboards and templates use, as a platform with some jobs has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from aitne.api.job_metrics_text import escape_label_value

NOW = 1_770_000_000
"""Time of the last sample, in Unix seconds."""
STEP_S = 60
HOURS = 2
JOB = {"jobid": ("5f0c", "91ab")}
_PROCESS = {"process": ("api", "controller")}
_STATES = ("QUEUED", "RUNNING", "COMPLETED", "FAILED")
_HTTP = {"method": ("GET",), "route": ("/api/v1/jobs",), "status": ("200", "503")}
_AREA = {"area": ("data_dir", "home")}
_PARTITION = {"partition": ("cpu", 'the "gpu" \\n\n')}
_COMMAND = {"command": ("poll", "submit")}
SERIES: dict[str, dict[str, tuple[str, ...]]] = {
    "aitne_jobs": {"state": _STATES},
    "aitne_outbox_depth": {},
    "aitne_outbox_oldest_seconds": {},
    "aitne_submissions_total": {"result": ("accepted", "rejected")},
    "aitne_reconcile_total": {"outcome": ("adopted",)},
    "aitne_http_request_duration_seconds_count": _HTTP,
    "aitne_http_request_duration_seconds_bucket": {**_HTTP, "le": ("0.1", "1.0", "+Inf")},
    "aitne_auth_failures_total": {"reason": ("token_not_authenticated",)},
    "aitne_sse_clients": {},
    "aitne_part_state": {"part": ("database",), "state": ("ok", "degraded")},
    "aitne_process_up": _PROCESS,
    "aitne_process_restarts_total": _PROCESS,
    "aitne_hung_process_restarts_total": _PROCESS,
    "aitne_process_cpu_seconds_total": _PROCESS,
    "aitne_process_resident_memory_bytes": _PROCESS,
    "aitne_database_latency_seconds": {},
    "aitne_deliveries": {"channel": ("mail",), "state": ("waiting",)},
    "aitne_scheduler_up": {},
    "aitne_scheduler_last_poll_timestamp_seconds": {},
    "aitne_scheduler_rpc_total": _COMMAND,
    "aitne_scheduler_rpc_failures_total": _COMMAND,
    "aitne_scheduler_rpc_seconds_total": _COMMAND,
    "aitne_backup_last_success_timestamp_seconds": {},
    "aitne_certificate_expiry_timestamp_seconds": {"certificate": ("portal.crt",)},
    "aitne_nodes": {"state": ("idle", "down")},
    "aitne_node_up": {"node": ("gpu01", "gpu02", 'the "third" \\n\n')},
    "aitne_node_power_watts": {"node": ("gpu01",), "source": ("slurm", "rapl")},
    "aitne_nodes_left_out": {},
    "aitne_cluster_cpus": {},
    "aitne_cluster_cpus_allocated": {},
    "aitne_cluster_memory_bytes": {},
    "aitne_cluster_memory_allocated_bytes": {},
    "aitne_cluster_gpus": {},
    "aitne_cluster_gpus_allocated": {},
    "aitne_partition_cpus": _PARTITION,
    "aitne_partition_cpus_allocated": _PARTITION,
    "aitne_partition_gpus": _PARTITION,
    "aitne_partition_gpus_allocated": _PARTITION,
    "aitne_gpu_ecc_errors": {"node": ("gpu01",), "gpu": ("0",)},
    "aitne_filesystem_size_bytes": _AREA,
    "aitne_filesystem_free_bytes": _AREA,
    "aitne_filesystem_inodes": _AREA,
    "aitne_filesystem_free_inodes": _AREA,
    "aitne_job_cpus_used": JOB,
    "aitne_job_cpus_allocated": JOB,
    "aitne_job_memory_used_bytes": JOB,
    "aitne_job_memory_allocated_bytes": JOB,
    "aitne_job_gpus_allocated": JOB,
    "aitne_job_gpu_utilization_ratio": JOB,
    "aitne_job_gpu_memory_used_bytes": JOB,
    "aitne_job_gpu_power_watts": JOB,
    "aitne_job_gpu_energy_joules_total": JOB,
    "aitne_job_cpu_energy_joules_total": JOB,
    "aitne_job_read_bytes_total": JOB,
    "aitne_job_written_bytes_total": JOB,
    "aitne_job_communication_ratio": JOB,
}
"""Metrics of the dashboards, with the values of their labels in the data."""


def _value(name: str, labels: Mapping[str, str], step: int) -> float:
    if name == "aitne_node_up":
        return float(labels["node"] == "gpu01")
    if name.endswith("_timestamp_seconds"):
        return NOW - 120
    if name.endswith("_ratio"):
        return 0.05
    counted = name.removesuffix("_count").removesuffix("_bucket") != name
    return 3.0 * step + 1 if name.endswith("_total") or counted else 5.0


def _series() -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield the name and the labels of each series, and both as text."""
    for name, labels in SERIES.items():
        for values in product(*labels.values()):
            pairs = dict(zip(labels, values, strict=True))
            text = ",".join(
                f'{label}="{escape_label_value(value)}"' for label, value in pairs.items()
            )
            yield name, pairs, f"{name}{{{text}}}"


def openmetrics() -> str:
    """Return two hours of samples of every series in OpenMetrics format.

    There are no type lines, so that names may have any ending.
    """
    start = NOW - HOURS * 3_600
    lines = [
        f"{text} {_value(name, pairs, step)} {start + step * STEP_S}"
        for name, pairs, text in _series()
        for step in range(HOURS * 3_600 // STEP_S + 1)
    ]
    return "\n".join([*lines, "# EOF", ""])


def metrics_text() -> str:
    """Return one sample of every series, as the platform's ``/metrics`` does."""
    return "".join(f"{text} {_value(name, pairs, 1)}\n" for name, pairs, text in _series())
