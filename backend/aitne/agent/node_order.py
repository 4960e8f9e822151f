"""Placement of a job's ranks: the order of its nodes, and the report about it.

The agent of the first node decides the order once and writes it to ``order.json`` in the folder
that the agents of all nodes share. Each agent finds the number of its own node there. The report
also contains to which CPUs the ranks are bound, which ``aitne-run`` writes to
``bindings-<n>.json`` in the ranks' folder.
"""

from __future__ import annotations

import json
import os
import threading
import time

from aitne.agent import untrusted_files
from aitne.agent.attempt_fence import write_private_file
from aitne.agent.multi_node_run import LOCAL_NODES, run_folder
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec
from aitne_train.launcher import host_order, hosts, slurm_and_mpi_queries
from aitne_train.launcher.errors import LaunchError
from aitne_train.topology.hostlist import expand_hostlist

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Mapping, Sequence
    from typing import Any

ORDER = "order.json"
SLURM_HOSTFILE = "AITNE_SLURM_HOSTFILE"
"""Variable with the path of a file for ``SLURM_HOSTFILE``, which has a line for each task."""
MOST_BYTES = 4 << 20
"""Maximum size of ``order.json`` and of a node's bindings."""
MOST_BINDINGS = 4_096
"""Maximum number of ranks whose binding is reported."""
_LOOK_S, _WAIT_S = 0.5, 600.0
"""Seconds between looks for the nodes' bindings, and after which those that exist are reported."""


class OrderUnavailable(Exception):
    """Error: the order of the nodes cannot be decided or written; the message is a sentence without
    full stop."""


class PlacementReport:
    """Report about the placement of the job's ranks, from their order to the last binding."""

    def __init__(self, spec: Spec, reporter: Reporter, document: dict[str, Any]) -> None:
        self._spec = spec
        self._reporter = reporter
        self._document = document
        self._bindings: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Report the order immediately, and the bindings when all nodes have written them. Nodes
        that write no bindings within ``_WAIT_S`` seconds are omitted."""
        self._reporter.queue_document("placement", self._document)
        if self._spec.ranks is not None and self._spec.platform_url:
            threading.Thread(target=self._report_when_ready, name="placement", daemon=True).start()

    def finish(self) -> None:
        """Report the bindings that were not reported yet, after the job's programs have ended."""
        if self._spec.ranks is not None and self._read_bindings():
            self._report_placement()

    def _report_when_ready(self) -> None:
        give_up = time.monotonic() + _WAIT_S
        while time.monotonic() < give_up:
            self._read_bindings()
            if len(self._bindings) == self._spec.nodes:
                break
            time.sleep(_LOOK_S)
        if self._bindings:
            self._report_placement()

    def _read_bindings(self) -> bool:
        """Read the bindings that nodes have written since the last call. Return whether there are
        any."""
        folder, found = f"{run_folder(self._spec)}/0", False
        with self._lock:
            for number in range(self._spec.nodes):
                if number not in self._bindings:
                    record = untrusted_files.read_json_object(
                        f"{folder}/bindings-{number}.json", MOST_BYTES
                    )
                    if record is not None and isinstance(record[1].get("bindings"), list):
                        self._bindings[number] = record[1]["bindings"]
                        found = True
        return found

    def _report_placement(self) -> None:
        with self._lock:
            bindings = [
                each for number in sorted(self._bindings) for each in self._bindings[number]
            ]
        document = {**self._document, "bindings": bindings[:MOST_BINDINGS]}
        self._reporter.queue_document("placement", document)


def decide_node_order(spec: Spec, reporter: Reporter) -> PlacementReport:
    """Decide the order of the job's nodes and report it. Write it to files for the agents of the
    other nodes and for the job's programs, and set the environment variables with the paths of
    these files.

    Args:
        spec: description of the job.
        reporter: sends the report, which also says why the order is the given one.

    Raises:
        OrderUnavailable: the file with the requested order, or the topology, cannot be used, or the
            order cannot be written.
    """
    given = _list_nodes_in_scheduler_order(spec, os.environ)
    if len(given) < 2:
        document: dict[str, Any] = {"given": given, "order": given, "reason": "it has one node"}
        return _start_report(spec, reporter, document)
    topology = os.path.join(spec.job_dir, "topology.conf")
    if os.path.isfile(topology) and not _has_own_topology(os.environ):
        os.environ[host_order.TOPOLOGY] = topology
    try:
        decided = _read_decided_order(spec, given)
        _write_order(spec, given, decided.names)
    except LaunchError as error:
        raise OrderUnavailable(str(error)) from error
    except OSError as error:
        raise OrderUnavailable(
            f"the order of the nodes cannot be written to {run_folder(spec)}: {error.strerror}"
        ) from error
    _set_variables(spec, given, decided.names)
    document = {"given": given, "order": decided.names, "reason": decided.reason}
    if decided.costs is not None:
        before, after = decided.costs.given, decided.costs.chosen
        document["crossings"] = {"given": before.crossings, "chosen": after.crossings}
        document["busiest_uplink"] = {
            "given": before.busiest_uplink,
            "chosen": after.busiest_uplink,
        }
    return _start_report(spec, reporter, document)


def _has_own_topology(environ: Mapping[str, str]) -> bool:
    """Return whether the partition of the job has another topology than the cluster's default, which
    the platform knows. Slurm is asked for it on the node then.
    """
    if LOCAL_NODES in environ:
        return False
    try:
        return slurm_and_mpi_queries.query_partition_topology(environ) is not None
    except LaunchError:
        return False


def _start_report(spec: Spec, reporter: Reporter, document: dict[str, Any]) -> PlacementReport:
    report = PlacementReport(spec, reporter, document)
    report.start()
    return report


def get_node_number(spec: Spec) -> int:
    """Return the number of this node in the order of the job's nodes, or in the scheduler's order
    if none was decided.

    Raises:
        OrderUnavailable: the order does not contain this node.
    """
    path = f"{run_folder(spec)}/{ORDER}"
    record = untrusted_files.read_json_object(path, MOST_BYTES)
    names = [] if record is None else record[1].get("order")
    if isinstance(names, list) and spec.node in names:
        return names.index(spec.node)
    if os.path.exists(path):
        raise OrderUnavailable(f"{path} does not contain the node {spec.node}")
    # The first node of a session or notebook is not one of the agents' step.
    return int(os.environ.get("SLURM_NODEID") or 0) + spec.runs_app_with_ranks


def _read_decided_order(spec: Spec, nodes: Sequence[str]) -> host_order.HostOrder:
    choice = spec.order
    if choice.startswith(host_order.FROM_FILE):
        path = os.path.expanduser(choice[len(host_order.FROM_FILE) :])
        path = os.path.join(os.path.expanduser(spec.workdir), path)
        choice = f"{host_order.FROM_FILE}{path}"
    environ = dict(os.environ)
    if LOCAL_NODES in environ:
        del environ["SLURM_JOB_ID"]  # it is not Slurm that could be asked for the topology
    per_node = spec.ranks.per_node if spec.ranks is not None else 1
    # A program that the user starts need not have the ranks of the mesh.
    mesh = spec.mesh if spec.ranks is not None else []
    # The app of a session runs on the first node, and its ranks beside it are the first ones.
    first = nodes[0] if spec.runs_app_with_ranks else None
    return host_order.decide_order(
        nodes, choice, environ, mesh=mesh, ranks_per_node=per_node, first=first
    )


def _list_nodes_in_scheduler_order(spec: Spec, environ: Mapping[str, str]) -> list[str]:
    """Return the names of the job's nodes in the scheduler's order; only this node's if they are
    not known."""
    pretended = environ.get(LOCAL_NODES)
    try:
        names = (
            [str(each["node"]) for each in json.loads(pretended)]
            if pretended
            else expand_hostlist(environ.get("SLURM_JOB_NODELIST") or "")
        )
    except (ValueError, TypeError, KeyError):
        names = []
    known = len(names) == len(set(names)) == spec.nodes and spec.node in names
    return names if known else [spec.node]


def _write_order(spec: Spec, nodes: Sequence[str], names: Sequence[str]) -> None:
    folder = run_folder(spec)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    tasks = _count_tasks(spec, nodes)
    slots = [tasks[name] for name in names]
    files = {
        "hostfile": hosts.format_hostfile(names, slots),
        "slurm_hostfile": "".join(f"{name}\n" * tasks[name] for name in names),
        # Last: an agent that finds it finds the others.
        ORDER: json.dumps({"given": list(nodes), "order": list(names)}),
    }
    for name, text in files.items():
        write_private_file(f"{folder}/{name}.new", text.encode(), os.O_TRUNC)
        os.replace(f"{folder}/{name}.new", f"{folder}/{name}")


def _count_tasks(spec: Spec, nodes: Sequence[str]) -> dict[str, int]:
    """Return the number of ranks, or of tasks, of each node."""
    if spec.ranks is not None:
        return dict.fromkeys(nodes, spec.ranks.per_node)
    try:
        counts = hosts.parse_task_counts(os.environ.get("SLURM_TASKS_PER_NODE") or "")
    except LaunchError:
        counts = []
    fits = len(counts) == len(nodes) and all(counts)
    return {name: counts[number] if fits else 1 for number, name in enumerate(nodes)}


def _set_variables(spec: Spec, nodes: Sequence[str], names: Sequence[str]) -> None:
    folder = run_folder(spec)
    os.environ[hosts.VARIABLE] = f"{folder}/hostfile"
    os.environ[SLURM_HOSTFILE] = f"{folder}/slurm_hostfile"
    os.environ["AITNE_NODE_RANK"] = str(names.index(spec.node))
    if os.environ.get("MASTER_ADDR") == nodes[0]:  # else the site or the user has chosen it
        os.environ["MASTER_ADDR"] = names[0]
