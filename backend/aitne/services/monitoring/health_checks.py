"""Health checks, one for each part of the platform."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from aitne import __version__
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import AitneError, Unavailable
from aitne.core.models.cluster import Node
from aitne.core.models.health import HealthState
from aitne.core.ports.health_probes import Probes
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import PLACEHOLDER
from aitne.core.units import describe_duration
from aitne.local_system.hung_restart_records import HUNG_AFTER_S
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.services.monitoring.health_check_result import (
    DEGRADED,
    DOWN,
    OK,
    Facts,
    HealthCheckResult,
)
from aitne.services.monitoring.platform_file_checks import FileChecks
from aitne.services.monitoring.scheduler_health import check_scheduler
from aitne.services.platform import certificate_authorities
from aitne.services.platform.backup_record import backup_record_file
from aitne.services.platform.certificate_authorities import authority_file, sessions_authority_file
from aitne.services.platform.doctor_report import report_file
from aitne.services.platform.event_hub import EventHub
from aitne.services.platform.maintenance import find_hold_reason
from aitne.services.platform.presented_certificates import PresentedCertificates
from aitne.services.users.isolation_warnings import list_isolation_warnings
from aitne.store import Store
from aitne_train.topology.hostlist import compress_hostlist
from aitne_train.topology.rank_order import MOST_NAMED

SLOW_DATABASE_S = 1.0
LONG_WAIT_S = 60.0
CERTIFICATE_NOTICE = timedelta(days=30)
LITTLE_SHARE = 0.10
RATHER_LITTLE_BYTES = 50 << 30
LITTLE_BYTES = 5 << 30
NO_BYTES = 500 << 20
_MOST_GROUPS = 5
"""Maximum number of groups of nodes in the text of a result."""
_RESTARTED = (
    "The supervisor restarts it when it exits, and kills it first when it has not answered for "
    f"{HUNG_AFTER_S:.0f} s."
)
_LOGS = "`aitne status` shows the processes; their logs are in `logs` of the data directory."


class HealthChecks:
    """Checks of the health of each part of the platform, such as database and scheduler."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        probes: Probes,
        cluster: ClusterService,
        events: EventHub,
        clock: Callable[[], datetime],
        topologies: ClusterTopologies,
        presented: PresentedCertificates,
        files: FileChecks,
    ) -> None:
        self._files = files
        self._presented = presented
        self._topologies = topologies
        self._store = store
        self._settings = settings
        self._probes = probes
        self._cluster = cluster
        self._events = events
        self._clock = clock
        self._began = clock()
        self._started = time.time()

    def all(self) -> Mapping[str, Callable[[], Awaitable[HealthCheckResult]]]:
        """Return the checks by name, for those parts that this platform has."""
        checks = {
            "api": self._check_api,
            "database": self._check_database,
            "controller": self._check_controller,
            "scheduler": self._check_scheduler,
            "nodes": self._check_nodes,
            "topology": self._check_topology,
            "queue": self._check_outbox_queue,
            "events": self._event_stream,
            "hub": self._check_hub,
            "proxy": self._check_proxy,
            "isolation": self._check_isolation,
            "storage": self._check_storage_areas,
            "disk": self._check_disk_space,
            "templates": self._files.template_files,
            "secrets": self._files.secret_files,
        }
        if self._settings.broker.socket is not None:
            checks["broker"] = self._check_broker
        if self._settings.tls.enabled:
            checks["certificates"] = self._check_certificate_expiry
        elif self._presented:
            checks["certificates"] = self._presented_certificates
        data_dir = self._settings.data_dir
        if backup_record_file(data_dir).exists():
            checks["backup"] = self._files.backup
        if report_file(data_dir).exists():
            checks["doctor"] = self._files.doctor
        return checks

    async def _check_api(self) -> HealthCheckResult:
        python = ".".join(map(str, sys.version_info[:3]))
        facts: Facts = {"version": __version__, "python": python}
        return HealthCheckResult(
            OK, f"Serves requests, release {__version__}.", None, self._began, facts
        )

    async def _check_database(self) -> HealthCheckResult:
        kind = "PostgreSQL" if self._settings.database else "SQLite"
        began = time.perf_counter()
        try:
            await self._store.ping()
        except AitneError as error:
            return HealthCheckResult(
                DOWN,
                error.message,
                "No data is lost: running jobs continue, and the platform resumes when the database "
                "answers again. Start it, or free space on its disk.",
            )
        taken = round(time.perf_counter() - began, 4)
        facts: Facts = {"kind": kind, "latency_s": taken}
        if taken > SLOW_DATABASE_S:
            says = f"{kind} took {taken:.1f} s to answer."
            return HealthCheckResult(
                DEGRADED, says, "Check the load and the disk of its machine.", None, facts
            )
        return HealthCheckResult(
            OK, f"{kind} answers in {taken * 1_000:.0f} ms.", None, None, facts
        )

    async def _check_controller(self) -> HealthCheckResult:
        lease = await self._store.find_lease("controller")
        if lease is None or lease.expired:
            return HealthCheckResult(
                DOWN,
                "No controller is active, so no jobs are submitted and no states are updated.",
                f"{_RESTARTED} If it does not recover: {_LOGS}",
                None if lease is None else lease.expires_at,
            )
        facts: Facts = {"holder": lease.holder, "epoch": lease.epoch}
        return HealthCheckResult(OK, "The controller is active.", None, None, facts)

    async def _check_scheduler(self) -> HealthCheckResult:
        return await check_scheduler(
            self._store, self._cluster, self._settings.scheduler, self._clock()
        )

    async def _check_nodes(self) -> HealthCheckResult:
        nodes = (await self._cluster.get_snapshot()).cluster.nodes
        out = [node for node in nodes if not node.state.is_usable]
        facts: Facts = {"nodes": len(nodes), "unusable": len(out)}
        if not nodes:
            says = "The scheduler has not reported any nodes yet."
            return HealthCheckResult(HealthState.UNKNOWN, says, "See the scheduler.", None, facts)
        if not out:
            return HealthCheckResult(
                OK, f"{len(nodes)} of {len(nodes)} nodes accept jobs.", None, None, facts
            )
        says = f"{len(out)} of {len(nodes)} nodes accept no jobs: {_format_nodes_by_reason(out)}."
        if find_hold_reason(await self._store.find_maintenance(), self._clock()):
            return HealthCheckResult(OK, f"Maintenance: {says}", None, None, facts)
        advice = (
            "Fix the reported reason, then resume them on the page of nodes or with `scontrol`."
        )
        return HealthCheckResult(
            DOWN if len(out) == len(nodes) else DEGRADED, says, advice, None, facts
        )

    async def _check_topology(self) -> HealthCheckResult:
        """Report sources of the topology that are invalid or contradict each other, and nodes of the
        scheduler that the network's topology lacks.
        """
        known = await self._topologies.get_known_topology()
        tree = known.topology.tree
        names = [node.name for node in (await self._cluster.get_snapshot()).cluster.nodes]
        unknown = [] if tree is None else tree.list_unknown(names)
        facts: Facts = {"sources": len(known.sources), "unknown_nodes": len(unknown)}
        wrong = [f"{source.name}: {source.problem}" for source in known.sources if source.problem]
        if unknown:
            more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
            wrong.append(
                f"The topology lacks {compress_hostlist(unknown[:MOST_NAMED])}{more} of the scheduler."
            )
        if wrong:
            return HealthCheckResult(
                DEGRADED,
                " ".join(wrong),
                "Jobs run all the same, but may be placed worse. Correct the source; `aitne admin topology "
                "check` shows all of them.",
                None,
                facts,
            )
        if tree is None:
            says = (
                "No source describes the network: ranks run in the order that the scheduler gives."
            )
            return HealthCheckResult(OK, says, None, None, facts)
        says = f"{len(tree.leaf_of)} nodes on {len(set(tree.leaf_of.values()))} leaves are known."
        return HealthCheckResult(OK, " ".join([says, *tree.notes]), None, None, facts)

    async def _check_outbox_queue(self) -> HealthCheckResult:
        depth, oldest_s = await self._store.get_outbox_depth()
        facts: Facts = {"depth": depth, "oldest_s": round(oldest_s, 1)}
        if find_hold_reason(await self._store.find_maintenance(), self._clock()):
            return HealthCheckResult(
                OK, f"Maintenance: {depth} requests are held.", None, None, facts
            )
        if oldest_s > LONG_WAIT_S:
            return HealthCheckResult(
                DEGRADED,
                f"{depth} requests are pending at the scheduler, the oldest for "
                f"{describe_duration(int(oldest_s))}.",
                "See the controller and the scheduler.",
                None,
                facts,
            )
        says = f"{depth} requests are pending." if depth else "No requests are pending."
        return HealthCheckResult(OK, says, None, None, facts)

    async def _event_stream(self) -> HealthCheckResult:
        problem = self._events.problem
        if problem is None:
            return HealthCheckResult(OK, "Changes reach open pages at once.")
        return HealthCheckResult(DOWN, problem, "Restart the API if it does not recover.")

    async def _check_hub(self) -> HealthCheckResult:
        url = f"http://127.0.0.1:{self._settings.port_of_hub}/hub/health"
        return await self._check_http_server(
            url, "JupyterHub", "Running sessions continue; new ones do not open."
        )

    async def _check_proxy(self) -> HealthCheckResult:
        url = f"http://127.0.0.1:{self._settings.port_of_proxy_api}/api/routes"
        return await self._check_http_server(url, "The proxy", "Sessions cannot be reached.")

    async def _check_isolation(self) -> HealthCheckResult:
        notes = await list_isolation_warnings(self._store, self._settings)
        if notes:
            return HealthCheckResult(OK, " ".join(notes))
        if self._settings.has_user_domains:
            return HealthCheckResult(OK, "Each user's sessions have an origin of their own.")
        return HealthCheckResult(OK, "There is one user.")

    async def _check_certificate_expiry(self) -> HealthCheckResult:
        periods = await asyncio.to_thread(
            certificate_authorities.read_validity_periods, self._settings
        )
        first, begins, path = min((end, begin, path) for path, (begin, end) in periods.items())
        authorities = (authority_file(self._settings), sessions_authority_file(self._settings))
        facts: Facts = {"expires_at": first.isoformat()}
        if self._expires_soon(begins, first):
            advice = "Renew it. The platform uses the new one within a minute."
            if path in authorities:
                advice = "Remove it with its key and restart the platform; clients must trust the new CA."
            elif path.is_relative_to(self._settings.tls_dir):
                advice = "The platform renews it 60 days before; api.log says why it did not."
            return HealthCheckResult(
                DEGRADED,
                f"The certificate {path} expires on {first:%Y-%m-%d}.",
                advice,
                None,
                facts,
            )
        if any(path.stat().st_mtime > self._started for path in authorities):
            says = (
                "A CA of the platform was replaced, and the platform still uses the previous one."
            )
            return HealthCheckResult(DEGRADED, says, "Restart the platform.", None, facts)
        return HealthCheckResult(
            OK, f"The next certificate expires on {first:%Y-%m-%d}.", None, None, facts
        )

    async def _presented_certificates(self) -> HealthCheckResult:
        """Check the certificates of a reverse proxy, which are measured once an hour."""
        found = await self._presented.get()
        ends = [each.period[1] for each in found.values() if each.period is not None]
        facts: Facts = {"expires_at": min(ends).isoformat() if ends else None}
        silent = [each.problem for each in found.values() if each.period is None]
        soon = [
            f"The certificate of {name} expires on {each.period[1]:%Y-%m-%d}."
            for name, each in found.items()
            if each.period is not None and self._expires_soon(*each.period)
        ]
        if silent:
            says = " ".join(["The expiry of a certificate is not known.", *silent, *soon])
            advice = "Start the reverse proxy, or let this machine reach the address."
            return HealthCheckResult(DEGRADED, says, advice, None, facts)
        if soon:
            advice = "Renew it and reload the reverse proxy; this is seen within an hour."
            return HealthCheckResult(DEGRADED, " ".join(soon), advice, None, facts)
        says = f"The next certificate expires on {min(ends):%Y-%m-%d}."
        return HealthCheckResult(OK, says, None, None, facts)

    def _expires_soon(self, begins: datetime, ends: datetime) -> bool:
        return ends - self._clock() < min(CERTIFICATE_NOTICE, (ends - begins) / 3)

    async def _check_http_server(self, url: str, who: str, consequence: str) -> HealthCheckResult:
        try:
            await self._probes.check_http(url)
        except Unavailable as error:
            advice = f"{consequence} {_RESTARTED} If it does not recover: {_LOGS}"
            return HealthCheckResult(DOWN, f"{who} does not answer: {error.message}", advice)
        return HealthCheckResult(OK, f"{who} answers.")

    async def _check_broker(self) -> HealthCheckResult:
        socket = self._settings.broker.socket or Path()
        try:
            await self._probes.check_socket(socket)
        except Unavailable as error:
            advice = "Start the broker's service."
            if self._settings.uses_user_accounts:
                advice = f"{_RESTARTED} If it does not recover: {_LOGS}"
            return HealthCheckResult(
                DOWN, error.message, f"Jobs cannot be submitted and logs cannot be read. {advice}"
            )
        return HealthCheckResult(OK, "The broker listens.", None, None, {"socket": str(socket)})

    async def _check_storage_areas(self) -> HealthCheckResult:
        """Check that the storage areas exist; the contents are not examined."""
        storage = self._settings.storage
        places = {Path(PLACEHOLDER.split(area.path)[0] or "/") for area in storage.areas}
        wrong = []
        for place in sorted({*places, *storage.datasets}):
            try:
                await self._probes.check_folder(place)
            except Unavailable as error:
                wrong.append(error.message)
        facts: Facts = {"places": len(places) + len(storage.datasets)}
        if wrong:
            advice = "Mount it again; sessions and jobs that use it hang or fail until then."
            return HealthCheckResult(DEGRADED, " ".join(wrong), advice, None, facts)
        return HealthCheckResult(
            OK, "Every storage area and dataset folder is there.", None, None, facts
        )

    async def _check_disk_space(self) -> HealthCheckResult:
        folder = self._settings.data_dir
        free, total = await self._probes.measure_space(folder)
        facts: Facts = {"path": str(folder), "free_bytes": free, "total_bytes": total}
        says = f"{describe_bytes(free)} of {describe_bytes(total)} are free in {folder}."
        advice = "Free some space: when the disk is full, the platform accepts no jobs."
        if free < NO_BYTES:
            return HealthCheckResult(DOWN, says, advice, None, facts)
        if free < LITTLE_BYTES or (free < RATHER_LITTLE_BYTES and free / total < LITTLE_SHARE):
            return HealthCheckResult(DEGRADED, says, advice, None, facts)
        return HealthCheckResult(OK, says, None, None, facts)


def _format_nodes_by_reason(nodes: Iterable[Node]) -> str:
    """Return a text with the nodes grouped by state and reason, the largest groups first."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        # Slurm adds the author and time of a reason, which differ from node to node.
        reason = (node.reason or "no reason is given").partition(" [")[0]
        groups.setdefault(f"{node.state} ({reason})", []).append(node.name)
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))
    words = [f"{compress_hostlist(names)} {state}" for state, names in largest[:_MOST_GROUPS]]
    rest = sum(len(names) for _, names in largest[_MOST_GROUPS:])
    return "; ".join([*words, *([f"and {rest} more"] if rest else [])])
