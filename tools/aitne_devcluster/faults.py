"""Simulation of failures in a running cluster for tests, and their repair."""

from __future__ import annotations

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster_record import DevCluster, NoDevCluster
from aitne_devcluster import cluster_state, daemons, processes
from aitne_devcluster.plan import DevClusterPlan, read_plan

GONE_S = 10.0


def pid_of(cluster: DevCluster, daemon: str) -> int | None:
    """Return the daemon's PID; None if it is not running.

    Raises:
        InvalidInput: there is no such daemon.
        NoDevCluster: the cluster does not exist any more.
    """
    plan = _require_plan(cluster)
    return cluster_state.find_daemon_pids(plan)[daemons.get_daemon(plan, daemon).name]


def restart_daemon(cluster: DevCluster, daemon: str) -> None:
    """Restart a daemon, whether it has ended, is stopped (SIGSTOP) or is running, and wait until it
    is ready.

    When a slurmd restarts, the node's jobs continue.

    Raises:
        InvalidInput: there is no such daemon.
        NoDevCluster: the cluster does not exist any more.
        SetupError: the daemon does not start.
    """
    plan = _require_plan(cluster)
    target = daemons.get_daemon(plan, daemon)

    def gone() -> bool:
        pids = [
            process.pid
            for process in processes.find_cluster_processes(plan)
            if process.daemon == daemon and not process.job
        ]
        processes.kill_processes(pids)
        return not pids

    if not processes.wait_until(gone, GONE_S):
        raise SetupError(f"{daemon} does not end, not even by SIGKILL.")
    daemons.launch_daemon(plan, target)
    daemons.wait_ready(plan, target)


def crash_node(cluster: DevCluster, node: str) -> None:
    """Simulate a power failure: kill the node's slurmd, its slurmstepds and the programs of its
    jobs at the same time.

    ``restart(cluster, "slurmd.n1")`` then simulates the boot of the node n1.

    Raises:
        InvalidInput: there is no such node.
        NoDevCluster: the cluster does not exist any more.
        SetupError: a process does not end.
    """
    plan = _require_plan(cluster)
    name = daemons.get_daemon(plan, f"slurmd.{node}").name

    def gone() -> bool:
        pids = [
            process.pid
            for process in processes.find_cluster_processes(plan)
            if process.daemon == name
        ]
        processes.kill_processes(pids)
        return not pids

    if not processes.wait_until(gone, GONE_S):
        raise SetupError(f"The processes of {node} do not end, not even by SIGKILL.")


def _require_plan(cluster: DevCluster) -> DevClusterPlan:
    plan = read_plan(cluster.name)
    if plan is None:
        raise NoDevCluster(cluster.name)
    return plan
