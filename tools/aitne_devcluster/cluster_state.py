"""Query of the state of a cluster's daemons and nodes."""

from __future__ import annotations

import re
from contextlib import suppress

from pydantic import Field

from aitne.adapters.program_runner import run_program
from aitne.core.errors import SetupError
from aitne.core.models.base import Frozen
from aitne.core.platform.dev_cluster_record import DevCluster, NoDevCluster
from aitne.local_system.dev_cluster_records import find_dev_cluster
from aitne_devcluster import daemons, processes
from aitne_devcluster.plan import DevClusterPlan, read_plan
from aitne_devcluster.processes import make_environment

IDLE_S = 120.0
_ASK_S = 15.0


class ClusterState(Frozen):
    """Current state of a cluster: its daemons and nodes."""

    cluster: DevCluster
    daemons: dict[str, int | None] = Field(
        description="Each daemon's PID, or null if it does not run."
    )
    nodes: dict[str, str] = Field(description="The nodes' states, in sinfo's short form.")


def read_cluster_state(name: str) -> ClusterState:
    """Return the current state of a cluster's daemons and nodes.

    Raises:
        NoDevCluster: there is no such cluster.
        SetupError: the cluster's plan cannot be read.
    """
    cluster, plan = find_dev_cluster(name), read_plan(name)
    if cluster is None or plan is None:
        raise NoDevCluster(name)
    daemon_pids = find_daemon_pids(plan)
    states = dict.fromkeys(plan.node_names, "unknown")
    if daemon_pids["slurmctld"] is not None:
        # A controller that is stopped or busy answers late or never: the nodes stay unknown.
        with suppress(SetupError):
            states |= read_node_states(plan)
    return ClusterState(cluster=cluster, daemons=daemon_pids, nodes=states)


def slurm_release(plan: DevClusterPlan) -> str:
    """Return the release of the cluster's Slurm, such as ``22.05.8``. Raises ``SetupError``."""
    output = run_program(
        [*plan.prefix, "slurmctld", "-V"], env=make_environment(plan.root, plan.slurm_conf)
    )
    match = re.search(r"\d+(\.\d+)+", output)
    if match is None:
        raise SetupError(f"`slurmctld -V` names no release: {output.strip()}")
    return match[0]


def find_daemon_pids(plan: DevClusterPlan) -> dict[str, int | None]:
    """Return the PID of each daemon, by its name; None for one that is not running."""
    cluster_processes = processes.find_cluster_processes(plan)
    return {
        daemon.name: processes.main_pid(cluster_processes, daemon.name)
        for daemon in daemons.list_daemons(plan)
    }


def read_node_states(plan: DevClusterPlan) -> dict[str, str]:
    """Return the state of each node that runs a slurmd, in sinfo's short form, by node name. Raises
    ``SetupError``.
    """
    argv = [*plan.prefix, "sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %t"]
    output = run_program(argv, env=make_environment(plan.root, plan.slurm_conf), timeout_s=_ASK_S)
    return dict(line.split() for line in output.splitlines())


def wait_idle(plan: DevClusterPlan) -> None:
    """Wait until every node is idle.

    Raises:
        SetupError: a node is not idle in time; the message contains the last lines of its log.
    """
    states: dict[str, str] = {}

    def idle() -> bool:
        states.update(read_node_states(plan))
        return set(states.values()) == {"idle"}

    if not processes.wait_until(idle, IDLE_S, poll_s=0.1):
        name = next((name for name, state in states.items() if state != "idle"), "n1")
        raise SetupError(
            f"Node {name} is {states.get(name, 'unknown')} after {IDLE_S:g} s: "
            f"{processes.tail_of(plan.log / f'slurmd.{name}.log', plan.log / 'slurmctld.log')}"
        )
