"""Test jobs of one user, one on each node, which tell what they see there."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import shlex
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from aitne.client import Client
from aitne.core.errors import AitneError
from aitne.core.models.cluster import Node
from aitne.core.settings import Settings
from aitne.operations.doctor import node_probe
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.impersonation_token import acting_as_user
from aitne_train.topology.hostlist import compress_hostlist

MOST_NODES = 32
"""Maximum number of nodes that are examined by jobs at a time."""
WAIT_S = 60.0
"""Seconds for which a job may wait for its node."""
WITHIN_S = 100.0
"""Seconds after which all test jobs are cancelled that have not ended."""
_END_WITHIN_S = 10.0
"""Seconds for which a cancelled job may take to end."""
_MAY_ACT_FOR = "10m"
_CONNECT_S = 4.0


@dataclass(frozen=True, slots=True)
class NodeReport:
    """Facts that a test job has told about its node."""

    node: str
    seen: dict[str, Any] | None
    """Facts that the job printed; None: it did not run."""
    problem: str | None = None
    """Why it did not run; None: it did."""
    connected: bool = False
    """True if this machine could connect to a port of the job."""
    not_connected: str | None = None

    def fact(self, name: str) -> object:
        """Return one of the facts that the job printed; None if it did not print it."""
        return (self.seen or {}).get(name)


async def examine_nodes(host: CheckedHost) -> Sequence[NodeReport]:
    """Run the test jobs, once for all checks, and return a report for each node.

    Raises ``AitneError`` if no job can be submitted.
    """

    async def run() -> Sequence[NodeReport]:
        cluster = await host.cluster()
        usable = [node for node in cluster.nodes if node.state.is_usable][:MOST_NODES]
        return await asyncio.to_thread(
            _run_test_jobs, host, usable, [node.name for node in cluster.nodes]
        )

    return await host.query_once("node jobs", run)


def _run_test_jobs(
    host: CheckedHost, nodes: Sequence[Node], names: Sequence[str]
) -> list[NodeReport]:
    user = host.job_user or ""
    if not nodes:
        return [NodeReport(user, None, "the scheduler reports no usable node")]
    data_dir = str(host.settings.data_dir)
    with acting_as_user(Client(data_dir=data_dir), user, "doctor", _MAY_ACT_FOR) as client:
        # Nodes that the local scheduler simulates are this machine.
        chosen = nodes if host.has_slurm else nodes[:1]
        jobs: list[str] = []
        pool = ThreadPoolExecutor(len(chosen))
        runs = [pool.submit(_run_test_job, client, host, node, names, jobs) for node in chosen]
        try:
            if wait(runs, timeout=WITHIN_S).not_done:
                _cancel_unfinished_jobs(client, jobs)
                # The log of a cancelled job ends, and with it what reads the log.
                wait(runs, timeout=_END_WITHIN_S)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        given_up = f"it was cancelled after {WITHIN_S:.0f} s"
        return [
            run.result() if run.done() else NodeReport(node.name, None, given_up)
            for node, run in zip(chosen, runs, strict=True)
        ]


def _cancel_unfinished_jobs(client: Client, jobs: Sequence[str]) -> None:
    """Cancel those of the jobs that have not ended."""
    for job_id in jobs:
        # It may end at this moment; one that the platform cannot cancel ends by its time limit.
        with suppress(AitneError):
            if not client.jobs.get(job_id).ended:
                client.jobs.cancel(job_id)


def _run_test_job(
    client: Client, host: CheckedHost, node: Node, names: Sequence[str], jobs: list[str]
) -> NodeReport:
    """Run the test job of one node, append its ID to ``jobs``, and return its report."""
    try:
        job = client.jobs.create(make_job_file(host.settings, node, names))
    except AitneError as error:
        return NodeReport(node.name, None, error.message)
    jobs.append(job.id)
    try:
        client.jobs.wait(job.id, until=lambda job: job.started_at is not None, timeout_s=WAIT_S)
        seen, connected, reason = None, False, None
        for line in _follow_lines(client, job.id):
            if seen is None and line.startswith(node_probe.MARK):
                seen = json.loads(line.partition(" ")[2])
                reason = _connection_problem(node if host.has_slurm else None, int(seen["port"]))
                connected = reason is None
        ended = client.jobs.wait(job.id, timeout_s=WAIT_S)
        if seen is None:
            return NodeReport(node.name, None, f"{ended.state}: {ended.message or 'no output'}")
        return NodeReport(node.name, seen, None, connected, reason)
    except (AitneError, ValueError, KeyError) as error:
        return NodeReport(node.name, None, getattr(error, "message", str(error)))
    finally:
        _cancel_unfinished_jobs(client, [job.id])


def make_job_file(settings: Settings, node: Node, names: Sequence[str]) -> dict[str, Any]:
    """Return the job file of the test job for one node; ``names`` are those of all nodes."""
    portal = f"{settings.agents_url}/healthz"
    wanted = {
        "urls": [
            portal,
            *([f"{settings.hub_connect_url}/hub/health"] if settings.hub_connect_url else []),
        ],
        "time_url": portal,
        "apptainer": settings.containers.apptainer,
    }
    source = base64.b64encode(inspect.getsource(node_probe).encode()).decode()
    python = settings.slurm.python if settings.capabilities.remote else sys.executable
    program = f"import base64;exec(base64.b64decode('{source}'))"
    slurm: dict[str, Any] = {}
    if settings.capabilities.remote:
        others = [name for name in names if name != node.name]
        slurm = {"exclude": compress_hostlist(others)} if others else {}
        if node.partitions:
            slurm["partition"] = node.partitions[0]
    return {
        "name": f"aitne doctor: {node.name}",
        "commands": [shlex.join([python, "-I", "-c", program, json.dumps(wanted)])],
        "resources": {"cpu": 1, "memory": "100M"},
        "max_duration": "5m",
        **({"slurm": slurm} if slurm else {}),
    }


def _follow_lines(client: Client, job_id: str) -> Any:
    """Yield the lines of a job's log as they are written."""
    rest = b""
    for chunk in client.jobs.follow_logs(job_id):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


def _connection_problem(node: Node | None, port: int) -> str | None:
    """Connect to the test job's program at a port of ``node``, or of this machine if ``node`` is
    None. Return why that failed, or None if it succeeded.
    """
    address = "127.0.0.1" if node is None else node.address or node.name
    try:
        with closing(socket.create_connection((address, port), timeout=_CONNECT_S)) as line:
            answered = line.recv(len(node_probe.BANNER), socket.MSG_WAITALL) == node_probe.BANNER
    except OSError as error:
        return error.strerror or str(error)
    return None if answered else "another program answers at the port"
