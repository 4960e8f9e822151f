"""Names of all metrics that the platform exports, with their labels and help texts.

They follow the conventions of Prometheus: prefix ``aitne_``, base units, and ``_total`` only for
counters. Users, paths and UUIDs are never labels, because there may be any number of them.
"""

from __future__ import annotations

from dataclasses import dataclass

_UNITS = {
    "timestamp_seconds": "Unix time in seconds",
    "time_seconds": "Unix time in seconds",
    "seconds": "seconds",
    "bytes": "bytes",
    "ratio": "0 to 1",
    "joules": "joules",
    "watts": "watts",
    "info": "always 1",
    "up": "0 or 1",
    "intact": "0 or 1",
    "state": "0 or 1",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """Name, help text and labels of one metric."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    histogram: bool = False

    @property
    def type(self) -> str:
        """Return the type of the metric: ``counter``, ``gauge`` or ``histogram``."""
        if self.histogram:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"

    @property
    def unit(self) -> str:
        """Return the unit of its values, which is the end of its name."""
        name = self.name.removesuffix("_total")
        return next((unit for end, unit in _UNITS.items() if name.endswith(f"_{end}")), "number")


BUILD_INFO = Metric("aitne_build_info", "Release of the platform.", ("version",))
HTTP_REQUEST_DURATION = Metric(
    "aitne_http_request_duration_seconds",
    "Duration of HTTP requests, by route template.",
    ("method", "route", "status"),
    histogram=True,
)
SSE_CLIENTS = Metric("aitne_sse_clients", "Open event streams of this process.")
AUTH_FAILURES = Metric("aitne_auth_failures_total", "Rejected credentials.", ("reason",))

PART_STATE = Metric(
    "aitne_part_state",
    "State of each part of the platform: 1 for the present state (ok, unknown, degraded or down).",
    ("part", "state"),
)
CHECK_STATE = Metric(
    "aitne_check_state",
    "State of each check in the last report of `aitne admin doctor`: 1 for the state that it found.",
    ("check", "state"),
)
PROCESS_UP = Metric(
    "aitne_process_up", "Whether the process runs and answers its supervisor.", ("process",)
)
PROCESS_RESTARTS = Metric(
    "aitne_process_restarts_total",
    "Restarts of the process since the supervisor started.",
    ("process",),
)
PROCESS_START_TIME = Metric(
    "aitne_process_start_time_seconds", "Time at which the process started.", ("process",)
)
PROCESS_CPU = Metric(
    "aitne_process_cpu_seconds_total",
    "CPU time of the process, without its children.",
    ("process",),
)
PROCESS_MEMORY = Metric(
    "aitne_process_resident_memory_bytes", "Resident memory of the process.", ("process",)
)
HUNG_RESTARTS = Metric(
    "aitne_hung_process_restarts_total",
    "Processes of the platform that did not answer, and were killed and started again.",
    ("process",),
)

DATABASE_LATENCY = Metric(
    "aitne_database_latency_seconds", "Duration of the last health check of the database."
)
JOBS = Metric("aitne_jobs", "Jobs by their present state.", ("state",))
OUTBOX_DEPTH = Metric("aitne_outbox_depth", "Actions that wait for the controller.")
OUTBOX_OLDEST = Metric("aitne_outbox_oldest_seconds", "Age of the oldest waiting action.")
SUBMISSIONS = Metric("aitne_submissions_total", "Submissions to the scheduler.", ("result",))
RECONCILE = Metric("aitne_reconcile_total", "Discrepancies that were corrected.", ("outcome",))
DELIVERIES = Metric(
    "aitne_deliveries",
    "Notifications that wait for their delivery or could not be delivered.",
    ("channel", "state"),
)
DELIVERIES_OLDEST = Metric(
    "aitne_deliveries_oldest_seconds",
    "Age of the oldest notification that waits for its delivery.",
    ("channel",),
)
AUDIT_INTACT = Metric(
    "aitne_audit_chain_intact",
    "Whether the chain of hashes of the audit log was intact at its last check.",
)
AUDIT_CHECKED = Metric(
    "aitne_audit_check_timestamp_seconds", "Time of the last check of the audit log."
)

SCHEDULER_UP = Metric("aitne_scheduler_up", "Whether the scheduler answers the controller.")
SCHEDULER_LAST_POLL = Metric(
    "aitne_scheduler_last_poll_timestamp_seconds",
    "Unix time of the scheduler's last answer to the batched query.",
)
SCHEDULER_STATE_LOST = Metric(
    "aitne_scheduler_state_lost_timestamp_seconds",
    "Unix time of the scheduler's last restart in which it lost running jobs.",
)
SCHEDULER_RPC = Metric("aitne_scheduler_rpc_total", "Calls of the scheduler.", ("command",))
SCHEDULER_RPC_FAILURES = Metric(
    "aitne_scheduler_rpc_failures_total", "Calls of the scheduler that failed.", ("command",)
)
SCHEDULER_RPC_SECONDS = Metric(
    "aitne_scheduler_rpc_seconds_total", "Duration of the calls of the scheduler.", ("command",)
)
NODES = Metric("aitne_nodes", "Nodes of the cluster by their state.", ("state",))
NODE_UP = Metric(
    "aitne_node_up", "Whether the node is neither down nor unknown to the scheduler.", ("node",)
)
NODE_POWER = Metric(
    "aitne_node_power_watts",
    "Power of a node by source: `slurm` is the whole node, `rapl` its CPUs and memory while jobs run.",
    ("node", "source"),
)
NODES_LEFT_OUT = Metric(
    "aitne_nodes_left_out", "Nodes without series of their own, because there are too many."
)
CLUSTER_CPUS = Metric("aitne_cluster_cpus", "CPUs of the nodes that accept jobs.")
CLUSTER_CPUS_ALLOCATED = Metric(
    "aitne_cluster_cpus_allocated", "CPUs of these nodes that are allocated to jobs."
)
CLUSTER_MEMORY = Metric("aitne_cluster_memory_bytes", "Memory of the nodes that accept jobs.")
CLUSTER_MEMORY_ALLOCATED = Metric(
    "aitne_cluster_memory_allocated_bytes", "Memory of these nodes that is allocated to jobs."
)
CLUSTER_GPUS = Metric("aitne_cluster_gpus", "GPUs of the nodes that accept jobs.")
CLUSTER_GPUS_ALLOCATED = Metric(
    "aitne_cluster_gpus_allocated", "GPUs of these nodes that are allocated to jobs."
)
PARTITION_CPUS = Metric(
    "aitne_partition_cpus", "CPUs of the partition's nodes that accept jobs.", ("partition",)
)
PARTITION_CPUS_ALLOCATED = Metric(
    "aitne_partition_cpus_allocated", "CPUs of these nodes that are allocated.", ("partition",)
)
PARTITION_GPUS = Metric(
    "aitne_partition_gpus", "GPUs of the partition's nodes that accept jobs.", ("partition",)
)
PARTITION_GPUS_ALLOCATED = Metric(
    "aitne_partition_gpus_allocated", "GPUs of these nodes that are allocated.", ("partition",)
)
GPU_ECC_ERRORS = Metric(
    "aitne_gpu_ecc_errors",
    "Uncorrected ECC errors of a GPU since its driver was loaded, as the last job on it reported.",
    ("node", "gpu"),
)

_AREA = "the data directory (data_dir) or a storage area"
FILESYSTEM_SIZE = Metric(
    "aitne_filesystem_size_bytes", f"Size of the file system of {_AREA}.", ("area",)
)
FILESYSTEM_FREE = Metric(
    "aitne_filesystem_free_bytes", "Space of it that the platform may still use.", ("area",)
)
FILESYSTEM_INODES = Metric(
    "aitne_filesystem_inodes", "Inodes of it; 0 if it has no fixed number.", ("area",)
)
FILESYSTEM_FREE_INODES = Metric(
    "aitne_filesystem_free_inodes", "Inodes of it that are free.", ("area",)
)
CERTIFICATE_EXPIRY = Metric(
    "aitne_certificate_expiry_timestamp_seconds",
    "Expiry of each certificate that the platform uses, by file name, or by host if a reverse proxy has it.",
    ("certificate",),
)
BACKUP_LAST_SUCCESS = Metric(
    "aitne_backup_last_success_timestamp_seconds", "Time of the last backup; 0: there is none."
)

JOB_REPORTS = Metric("aitne_job_reports", "Live jobs with series at /metrics/jobs.")
JOB_REPORTS_LEFT_OUT = Metric(
    "aitne_job_reports_left_out", "Live jobs without series there, because there are too many."
)

# At /metrics/jobs: one series for each live job whose agent reports. ``core.jobs.usage_sample_values`` has
# those of further measured values.
JOB_LABELS = ("jobid",)
JOB_CPUS_USED = Metric("aitne_job_cpus_used", "CPUs in use, since the previous sample.", JOB_LABELS)
JOB_CPUS_ALLOCATED = Metric("aitne_job_cpus_allocated", "CPUs of the job.", JOB_LABELS)
JOB_MEMORY_USED = Metric("aitne_job_memory_used_bytes", "Memory in use.", JOB_LABELS)
JOB_MEMORY_ALLOCATED = Metric("aitne_job_memory_allocated_bytes", "Memory of the job.", JOB_LABELS)
JOB_PROCESSES = Metric("aitne_job_processes", "Processes of the job.", JOB_LABELS)
JOB_GPUS_ALLOCATED = Metric("aitne_job_gpus_allocated", "GPUs of the job.", JOB_LABELS)
JOB_COMMUNICATION = Metric(
    "aitne_job_communication_ratio",
    "Share of the training steps in which a collective ran.",
    JOB_LABELS,
)

# Of one job, as ``GET /api/v1/jobs/{id}/profile`` writes them for text/plain; the runtime's own text has
# the same names. Counters hold the whole run so far.
DISTRIB_RANKS = Metric("aitne_distrib_ranks", "Ranks of the job.")
DISTRIB_STEPS = Metric("aitne_distrib_steps_total", "Training steps that have ended.")
DISTRIB_STEP = Metric("aitne_distrib_step_seconds", "Mean length of a step.")
DISTRIB_COMMUNICATING = Metric(
    "aitne_distrib_communicating_ratio", "Share of the steps in which a collective ran."
)
DISTRIB_BLOCKED = Metric(
    "aitne_distrib_blocked_ratio", "Share of the steps in which the program was blocked by it."
)
DISTRIB_OVERLAP = Metric(
    "aitne_distrib_overlap_ratio", "Share of the communication overlapped with computation."
)
DISTRIB_STRAGGLER = Metric(
    "aitne_distrib_straggler_behind_seconds",
    "Additional computing time per step of the rank that the others wait for.",
    ("rank",),
)
DISTRIB_COLLECTIVES = Metric(
    "aitne_distrib_collectives_total", "Collectives, by operation and message size.", ("op", "size")
)
DISTRIB_BYTES = Metric(
    "aitne_distrib_bytes_total", "Bytes that a rank passed to them.", ("op", "size")
)
DISTRIB_SECONDS = Metric("aitne_distrib_seconds_total", "Time of a rank in them.", ("op", "size"))
