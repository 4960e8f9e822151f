"""Values of the metrics that this process does not count itself: what the controller, the supervisor
and the agents have stored, and what the health checks found.

They are collected at most once in ``FRESH_S`` seconds, whatever the number of scrapes, and nothing
here waits longer than the time limit of a probe. While the database does not answer, the metrics
from it are absent and the others remain.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from pathlib import Path

from aitne import __version__
from aitne.core.errors import SetupError, StoreUnavailable
from aitne.core.jobs.states import LIVE, TERMINAL, JobState
from aitne.core.models.check_result import CheckState
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.health import HealthState
from aitne.core.models.notification import DeliveryState
from aitne.core.platform import metric_names
from aitne.core.platform.metric_names import Metric
from aitne.core.ports.health_probes import Probes
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import PLACEHOLDER
from aitne.local_system import hung_restart_records, process_status_file
from aitne.services.jobs.live_usage import LiveUsage
from aitne.services.monitoring.audit_checks import AuditChecks
from aitne.services.monitoring.health import HealthService
from aitne.services.platform import certificate_authorities
from aitne.services.platform.backup_record import read_backup_record
from aitne.services.platform.doctor_report import read_report
from aitne.services.platform.presented_certificates import PresentedCertificates
from aitne.services.platform.ttl_cache import TtlCache
from aitne.store import Store

log = logging.getLogger(__name__)

FRESH_S = 5.0
"""Seconds for which one collection serves all scrapes."""
ENDED_EVERY_S = 600.0
"""Seconds after which the ended jobs, of which there may be any number, are counted again."""
_ENDED_WITHIN_S = 0.05
"""Seconds for which a collection waits for that count; it then has the previous one."""
MOST_NODES = 5_000
"""Maximum number of nodes with series of their own; further ones are only counted."""
DATA_DIR = "data_dir"
_FROM_CONTROLLER = (
    *(metric_names.SUBMISSIONS, metric_names.RECONCILE, metric_names.SCHEDULER_RPC),
    *(metric_names.SCHEDULER_RPC_FAILURES, metric_names.SCHEDULER_RPC_SECONDS),
)

Values = Mapping[Metric, Mapping[tuple[str, ...], float]]
"""Values of each metric, by the values of its labels."""
_Values = dict[Metric, dict[tuple[str, ...], float]]


class Measurements:
    """Collector of the values of all metrics that other processes or the database know."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        probes: Probes,
        health: HealthService,
        audit_checks: AuditChecks,
        usage: LiveUsage,
        presented: PresentedCertificates,
        clock: Callable[[], datetime],
        *,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._store = store
        self._settings = settings
        self._probes = probes
        self._health = health
        self._audit_checks = audit_checks
        self._usage = usage
        self._presented = presented
        self._clock = clock
        self._values = TtlCache(self._collect_values, fresh_s)
        self._ended: Mapping[JobState, int] | None = None
        self._ended_at = float("-inf")
        self._counting: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop counting the ended jobs."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait({self._counting})

    async def get(self) -> Values:
        """Return the values, at most some seconds old."""
        return await self._values.get()

    async def _collect_values(self) -> Values:
        values: _Values = defaultdict(dict)
        values[metric_names.BUILD_INFO][(__version__,)] = 1.0
        self._add_health_values(values)
        self._add_job_report_values(values)
        _add_process_values(values, self._settings.run_dir)
        backup = read_backup_record(self._settings.data_dir)
        report = await asyncio.to_thread(read_report, self._settings.data_dir)
        if report is not None:
            for check, state in product(report.checks, CheckState):
                values[metric_names.CHECK_STATE][check.name, state] = float(check.state is state)
        at = 0.0 if backup is None else backup.created_at.timestamp()
        values[metric_names.BACKUP_LAST_SUCCESS][()] = at
        if self._settings.tls.enabled:
            values[metric_names.CERTIFICATE_EXPIRY] = await asyncio.to_thread(
                _read_certificate_expiry, self._settings
            )
        for name, end in self._presented.get_last_expiries().items():
            values[metric_names.CERTIFICATE_EXPIRY][(name,)] = end.timestamp()
        for area, space in (
            await self._probes.measure_filesystems(self._get_measured_folders())
        ).items():
            values[metric_names.FILESYSTEM_SIZE][(area,)] = space.size_bytes
            values[metric_names.FILESYSTEM_FREE][(area,)] = space.free_bytes
            values[metric_names.FILESYSTEM_INODES][(area,)] = space.inodes
            values[metric_names.FILESYSTEM_FREE_INODES][(area,)] = space.free_inodes
        try:
            await self._add_stored_values(values)
        except StoreUnavailable as error:
            log.warning("The metrics from the database are missing: %s", error.message)
        return values

    def _add_health_values(self, values: _Values) -> None:
        for part in self._health.parts():
            for state in HealthState:
                values[metric_names.PART_STATE][part.name, state] = float(part.state is state)
            latency_s = part.facts.get("latency_s")
            if part.name == "database" and isinstance(latency_s, float):
                values[metric_names.DATABASE_LATENCY][()] = latency_s
        check = self._audit_checks.last
        if check is not None:
            values[metric_names.AUDIT_INTACT][()] = float(check.intact)
            values[metric_names.AUDIT_CHECKED][()] = check.at.timestamp()

    def _add_job_report_values(self, values: _Values) -> None:
        values[metric_names.JOB_REPORTS][()] = len(self._usage.usages())
        values[metric_names.JOB_REPORTS_LEFT_OUT][()] = self._usage.left_out_count
        for (node, index), errors in self._usage.ecc_errors().items():
            values[metric_names.GPU_ECC_ERRORS][node, str(index)] = errors

    def _get_measured_folders(self) -> Mapping[str, Path]:
        areas = {
            area.name: Path(PLACEHOLDER.split(area.path)[0] or "/")
            for area in self._settings.storage.areas
        }
        return {DATA_DIR: self._settings.data_dir, **areas}

    async def _add_stored_values(self, values: _Values) -> None:
        live = await self._store.count_jobs_by_state(live_only=True)
        values[metric_names.JOBS] = {(state,): live.get(state, 0) for state in LIVE}
        ended = await self._ended_jobs()
        if ended is not None:
            values[metric_names.JOBS] |= {(state,): ended.get(state, 0) for state in TERMINAL}
        depth, oldest_s = await self._store.get_outbox_depth()
        values[metric_names.OUTBOX_DEPTH][()], values[metric_names.OUTBOX_OLDEST][()] = (
            depth,
            oldest_s,
        )
        lease = await self._store.find_lease("controller")
        counters = {} if lease is None else lease.counters
        for metric in _FROM_CONTROLLER:
            labels = counters.get(metric.name, {})
            values[metric] = {(label,): value for label, value in labels.items()}
        for metric in (metric_names.SCHEDULER_LAST_POLL, metric_names.SCHEDULER_STATE_LOST):
            for last in counters.get(metric.name, {}).values():
                values[metric][()] = last
        status = await self._store.find_scheduler_status()
        values[metric_names.SCHEDULER_UP][()] = float(status is not None and status.responding)
        cluster = await self._store.get_cluster()
        self._usage.keep_ecc_errors_of_nodes({node.name for node in cluster.nodes})
        _add_node_values(values, cluster, self._usage.cpu_power_w())
        now = self._clock()
        for backlog in await self._store.count_undelivered():
            values[metric_names.DELIVERIES][backlog.channel, backlog.state] = backlog.count
            if backlog.state is DeliveryState.WAITING:
                age_s = max(0.0, (now - backlog.oldest).total_seconds())
                values[metric_names.DELIVERIES_OLDEST][(backlog.channel,)] = age_s

    async def _ended_jobs(self) -> Mapping[JobState, int] | None:
        """Return the number of ended jobs by state, as last counted; None before that."""
        now = asyncio.get_running_loop().time()
        if now - self._ended_at >= ENDED_EVERY_S and self._counting is None:
            self._counting = asyncio.create_task(self._count_ended(), name="count-ended-jobs")
            await asyncio.wait({self._counting}, timeout=_ENDED_WITHIN_S)
        return self._ended

    async def _count_ended(self) -> None:
        try:
            self._ended = await self._store.count_jobs_by_state()
            self._ended_at = asyncio.get_running_loop().time()
        except StoreUnavailable as error:
            log.warning("The ended jobs are counted later: %s", error.message)
        finally:
            self._counting = None


def _add_process_values(values: _Values, run_dir: Path) -> None:
    for process in process_status_file.read_process_status(run_dir):
        key = (process.name,)
        usage = process_status_file.read_process_usage(process.pid)
        values[metric_names.PROCESS_UP][key] = float(process.answers and usage is not None)
        values[metric_names.PROCESS_RESTARTS][key] = process.restarts
        values[metric_names.PROCESS_START_TIME][key] = process.started_at
        if usage is not None:
            values[metric_names.PROCESS_CPU][key] = usage.cpu_s
            values[metric_names.PROCESS_MEMORY][key] = usage.memory_bytes
    restarts = hung_restart_records.read_restart_counts(run_dir)
    values[metric_names.HUNG_RESTARTS] = {(name,): count for name, count in restarts.items()}


def _read_certificate_expiry(settings: Settings) -> dict[tuple[str, ...], float]:
    """Return the expiry of each certificate by its file name; empty if one cannot be read, which
    the health of the certificates shows.
    """
    try:
        periods = certificate_authorities.read_validity_periods(settings)
    except SetupError as error:
        log.warning("%s", error.message)
        return {}
    expiry: dict[tuple[str, ...], float] = {}
    for path, (_, end) in periods.items():
        key = (path.name,)
        expiry[key] = min(end.timestamp(), expiry.get(key, end.timestamp()))
    return expiry


def _add_node_values(values: _Values, cluster: Cluster, cpu_power_w: Mapping[str, float]) -> None:
    by_state = dict.fromkeys(NodeState, 0)
    for node in cluster.nodes:
        by_state[node.state] += 1
    values[metric_names.NODES] = {(state,): count for state, count in by_state.items()}
    shown = cluster.nodes[:MOST_NODES]
    values[metric_names.NODE_UP] = {
        (node.name,): float(node.state not in (NodeState.DOWN, NodeState.UNKNOWN)) for node in shown
    }
    for node in shown:
        if node.power_w is not None:
            values[metric_names.NODE_POWER][node.name, "slurm"] = node.power_w
        if node.name in cpu_power_w:
            values[metric_names.NODE_POWER][node.name, "rapl"] = cpu_power_w[node.name]
    values[metric_names.NODES_LEFT_OUT][()] = len(cluster.nodes) - len(shown)
    usable = [node for node in cluster.nodes if node.state.is_usable]
    values[metric_names.CLUSTER_CPUS][()], values[metric_names.CLUSTER_CPUS_ALLOCATED][()] = (
        _sum_cpus(usable)
    )
    values[metric_names.CLUSTER_MEMORY][()] = sum(node.memory_total_bytes for node in usable)
    values[metric_names.CLUSTER_MEMORY_ALLOCATED][()] = sum(
        node.memory_used_bytes for node in usable
    )
    values[metric_names.CLUSTER_GPUS][()], values[metric_names.CLUSTER_GPUS_ALLOCATED][()] = (
        _sum_gpus(usable)
    )
    members: dict[str, list[Node]] = {partition.name: [] for partition in cluster.partitions}
    for node in usable:
        for partition in node.partitions:
            members.setdefault(partition, []).append(node)
    for name, nodes in members.items():
        key = (name,)
        (
            values[metric_names.PARTITION_CPUS][key],
            values[metric_names.PARTITION_CPUS_ALLOCATED][key],
        ) = _sum_cpus(nodes)
        (
            values[metric_names.PARTITION_GPUS][key],
            values[metric_names.PARTITION_GPUS_ALLOCATED][key],
        ) = _sum_gpus(nodes)


def _sum_cpus(nodes: Sequence[Node]) -> tuple[int, int]:
    return sum(node.cpu_total for node in nodes), sum(node.cpu_used for node in nodes)


def _sum_gpus(nodes: Iterable[Node]) -> tuple[int, int]:
    gpus = [gpu for node in nodes for gpu in node.gpus]
    return sum(gpu.total for gpu in gpus), sum(gpu.used for gpu in gpus)
