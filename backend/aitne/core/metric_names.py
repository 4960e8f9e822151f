"""The names of every metric the platform exports, with their labels and meaning.

Prometheus' conventions: the prefix ``aitne_``, base units, ``_total`` on counters only. No label is
ever a user, a path or a UUID: their number is not bounded.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric's name, what it says and how it is divided."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


HTTP_REQUEST_DURATION = Metric(
    "aitne_http_request_duration_seconds",
    "How long HTTP requests took, by route template.",
    ("method", "route", "status"),
)
JOBS = Metric("aitne_jobs", "Jobs by their present state.", ("state",))
OUTBOX_DEPTH = Metric("aitne_outbox_depth", "Actions that wait for the controller.")
OUTBOX_OLDEST = Metric("aitne_outbox_oldest_seconds", "Age of the oldest waiting action.")
SSE_CLIENTS = Metric("aitne_sse_clients", "Open event streams of this process.")
AUTH_FAILURES = Metric("aitne_auth_failures_total", "Refused credentials.", ("reason",))
SUBMISSIONS = Metric("aitne_submissions_total", "Submissions to the scheduler.", ("result",))
SCHEDULER_RPC = Metric("aitne_scheduler_rpc_total", "Calls of the scheduler.", ("command",))
SCHEDULER_LAST_POLL = Metric(
    "aitne_scheduler_last_poll_timestamp_seconds",
    "When the scheduler last answered the batched query, as a Unix time.",
)
RECONCILE = Metric("aitne_reconcile_total", "Discrepancies that were set right.", ("outcome",))
