"""Environment of the cluster's daemons, and functions to find and end their processes.

Every daemon is started with two environment variables, which its child processes inherit: the
cluster's folder and the daemon's name. By these its processes are found without a PID file, also
after a crash or when a PID was reused.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from aitne.adapters.program_runner import PATH, join_last_lines
from aitne_devcluster.plan import DevClusterPlan

ROOT_MARK = "AITNE_DEV_ROOT"
DAEMON_MARK = "AITNE_DEV_DAEMON"
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ClusterProcess:
    """Process that belongs to a cluster.

    ``daemon`` is the name of the daemon that started it. ``job`` is True for a job's program or its
    slurmstepd, both of which outlive slurmd.
    """

    pid: int
    parent: int
    daemon: str
    job: bool


def make_environment(root: Path, slurm_conf: Path, daemon: str = "") -> dict[str, str]:
    """Return the environment for a daemon or command. It contains only known variables, and not the
    caller's proxies, tokens and locale.
    """
    environ = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/", "SLURM_CONF": str(slurm_conf)}
    return environ | {ROOT_MARK: str(root), DAEMON_MARK: daemon} if daemon else environ


def tail_of(*logs: Path) -> str:
    """Return the last lines of the first of the logs that is not empty."""
    for log in logs:
        if log.exists() and (
            text := join_last_lines(log.read_text(encoding="utf-8", errors="replace").splitlines())
        ):
            return text
    return "its log is empty"


def read_parent_pids() -> dict[int, int]:
    """Return the parent's PID of each live process, by PID; zombies are omitted."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, parent = stat.rpartition(b")")[2].split()[:2]
            if state not in (b"Z", b"X"):
                parents[int(entry.name)] = int(parent)
    return parents


def read_process_environment(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started; empty if it has ended or cannot be
    read.
    """
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    pairs = (part.partition(b"=") for part in raw.split(b"\0"))
    return {
        name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs
    }


def find_cluster_processes(plan: DevClusterPlan) -> list[ClusterProcess]:
    """Return every process of the cluster: its daemons, the processes that these started, and the
    programs of jobs.
    """
    parents = read_parent_pids()
    marked: dict[int, tuple[str, bool]] = {}
    for pid in parents:
        environ = read_process_environment(pid)
        # A job first: it may have been submitted with the environment of one of our daemons.
        if "SLURM_JOB_ID" in environ and environ.get("SLURM_CONF") == str(plan.slurm_conf):
            marked[pid] = (f"slurmd.{environ.get('SLURMD_NODENAME', '')}", True)
        elif environ.get(ROOT_MARK) == str(plan.root):
            marked[pid] = (environ.get(DAEMON_MARK, ""), _is_minder(pid))
    cluster_processes = []
    for pid, parent in parents.items():
        mark = marked.get(pid) or _find_ancestor_mark(pid, parents, marked)
        if mark is not None and pid != os.getpid():
            cluster_processes.append(ClusterProcess(pid, parent, *mark))
    return cluster_processes


def _find_ancestor_mark(
    pid: int, parents: dict[int, int], marked: dict[int, tuple[str, bool]]
) -> tuple[str, bool] | None:
    """Return the daemon's name and ``job`` of the closest ancestor process that belongs to a
    cluster, since a program may have cleared its own environment; None if there is no such
    ancestor.
    """
    visited_pids = {pid}
    while (pid := parents.get(pid, 0)) > 1 and pid not in visited_pids:
        if pid in marked:
            return marked[pid]
        visited_pids.add(pid)
    return None


def _is_minder(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "slurmstepd"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main_pid(cluster_processes: Collection[ClusterProcess], daemon: str) -> int | None:
    """Return the PID of the daemon itself, not of a process that it started; None if it is not
    running.
    """
    own_processes = {
        process.pid: process
        for process in cluster_processes
        if process.daemon == daemon and not process.job
    }
    return min(
        (pid for pid, process in own_processes.items() if process.parent not in own_processes),
        default=None,
    )


def kill_processes(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send the signal ``number`` to those of the processes that still exist."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def wait_until(condition: Callable[[], bool], timeout_s: float, *, poll_s: float = POLL_S) -> bool:
    """Wait until ``condition`` returns True; return False if it does not do so within
    ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True


def list_listening_ports() -> set[int]:
    """Return the TCP ports on which any process on this machine listens (proc(5), /proc/net/tcp).

    The kernel's table is read instead of connecting to ports, since daemons would log broken
    connections.
    """
    ports = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if table.exists():
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
