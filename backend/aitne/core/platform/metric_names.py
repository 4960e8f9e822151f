"""Names of all metrics that the platform exports, with their labels and help texts.

They follow the conventions of Prometheus: prefix ``aitne_``, base units, and ``_total`` only for
counters. Users, paths and UUIDs are never labels, because there may be any number of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """Name, help text and labels of one metric."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


HTTP_REQUEST_DURATION = Metric(
    "aitne_http_request_duration_seconds",
    "Duration of HTTP requests, by route template.",
    ("method", "route", "status"),
)
JOBS = Metric("aitne_jobs", "Jobs by their present state.", ("state",))
OUTBOX_DEPTH = Metric("aitne_outbox_depth", "Actions that wait for the controller.")
OUTBOX_OLDEST = Metric("aitne_outbox_oldest_seconds", "Age of the oldest waiting action.")
SSE_CLIENTS = Metric("aitne_sse_clients", "Open event streams of this process.")
AUTH_FAILURES = Metric("aitne_auth_failures_total", "Rejected credentials.", ("reason",))
SUBMISSIONS = Metric("aitne_submissions_total", "Submissions to the scheduler.", ("result",))
SCHEDULER_RPC = Metric("aitne_scheduler_rpc_total", "Calls of the scheduler.", ("command",))
SCHEDULER_LAST_POLL = Metric(
    "aitne_scheduler_last_poll_timestamp_seconds",
    "Unix time of the scheduler's last answer to the batched query.",
)
BACKUP_LAST_SUCCESS = Metric(
    "aitne_backup_last_success_timestamp_seconds", "Unix time of the last backup; 0: none was made."
)
HUNG_RESTARTS = Metric(
    "aitne_hung_process_restarts_total",
    "Processes of the platform that did not answer, and were killed and started again.",
    ("process",),
)
RECONCILE = Metric("aitne_reconcile_total", "Discrepancies that were corrected.", ("outcome",))

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
