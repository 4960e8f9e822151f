"""Failures that tests inject into a running cluster, and their repair."""

from __future__ import annotations

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster import DevCluster, NoDevCluster
from aitne.dev import daemons, processes, state
from aitne.dev.plan import DevClusterPlan, read_plan

GONE_S = 10.0


def pid_of(cluster: DevCluster, daemon: str) -> int | None:
    """Return the daemon's PID; ``None`` while it does not run.

    Raises:
        InvalidInput: there is no such daemon.
        NoDevCluster: the cluster is gone.
    """
    plan = _plan(cluster)
    return state.pids(plan)[daemons.named(plan, daemon).name]


def restart(cluster: DevCluster, daemon: str) -> None:
    """Restart a daemon, whether it is dead, stopped (SIGSTOP) or alive, and wait until it answers.

    A node's jobs continue meanwhile.

    Raises:
        InvalidInput: there is no such daemon.
        NoDevCluster: the cluster is gone.
        SetupError: the daemon does not start.
    """
    plan = _plan(cluster)
    target = daemons.named(plan, daemon)

    def gone() -> bool:
        pids = [
            process.pid
            for process in processes.find(plan)
            if process.daemon == daemon and not process.job
        ]
        processes.kill(pids)
        return not pids

    if not processes.wait_until(gone, GONE_S):
        raise SetupError(f"{daemon} does not end, not even by SIGKILL.")
    daemons.launch(plan, target)
    daemons.wait_ready(plan, target)


def crash_node(cluster: DevCluster, node: str) -> None:
    """Simulate a power cut: end the node's slurmd, its slurmstepds and the programs of its jobs at
    once.

    ``restart(cluster, "slurmd.n1")`` is the node's boot.

    Raises:
        InvalidInput: there is no such node.
        NoDevCluster: the cluster is gone.
        SetupError: a process does not end.
    """
    plan = _plan(cluster)
    name = daemons.named(plan, f"slurmd.{node}").name

    def gone() -> bool:
        pids = [process.pid for process in processes.find(plan) if process.daemon == name]
        processes.kill(pids)
        return not pids

    if not processes.wait_until(gone, GONE_S):
        raise SetupError(f"The processes of {node} do not end, not even by SIGKILL.")


def _plan(cluster: DevCluster) -> DevClusterPlan:
    plan = read_plan(cluster.name)
    if plan is None:
        raise NoDevCluster(cluster.name)
    return plan
