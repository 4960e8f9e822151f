"""Creation of a cluster, until all its nodes are idle, and its removal."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from aitne.adapters import apt_installation
from aitne.adapters.apt_installation import Progress
from aitne.adapters.program_runner import run_program
from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.local_system.dev_cluster_records import DESCRIPTORS, find_dev_cluster
from aitne_devcluster import (
    accounting,
    broker,
    cluster_folder,
    cluster_state,
    daemons,
    packages,
    ports,
    processes,
    root_file_systems,
    users,
)
from aitne_devcluster.locks import ALL, hold_cluster_lock
from aitne_devcluster.plan import (
    HOME,
    DevClusterPlan,
    ReleaseName,
    check_name,
    check_request,
    names_of_nodes,
    read_plan,
)
from aitne_devcluster.processes import make_environment
from aitne_devcluster.topology import ARRANGEMENTS, DevTopology, from_file, make_arranged_topology

PYTHON = "/usr/bin/python3"
_STEPS_END_S = 5.0
_KILLED_S = 10.0


def start_cluster(
    name: str = "dev",
    *,
    nodes: int = 4,
    gpus: int = 4,
    release: ReleaseName = "system",
    cloud_nodes: int = 0,
    topology: str | None = None,
    port_base: int | None = None,
    progress: Progress,
) -> DevCluster:
    """Start a cluster and return its description; if it is running already, it is not changed.
    After a failure everything is removed.

    ``topology`` is one of ``topology.ARRANGEMENTS``, or the path of a ``topology.conf`` or
    ``topology.yaml``; None: two leaf switches with consecutive names.

    Raises:
        InvalidInput: a number is out of range, the name is invalid, or the topology cannot be used.
        SetupError: this process is not root, or a package, port, mount or daemon is not available.
    """
    check_request(name, nodes, gpus, cloud_nodes)
    network = _choose_topology(topology, nodes, cloud_nodes)
    _need_root("up")
    with hold_cluster_lock(name):
        running = _find_running_cluster(name, progress)
        if running is not None:
            return running
        _take_down(name)
        base = _install_slurm(release, progress)
        began = time.monotonic()
        try:
            with hold_cluster_lock(ALL):
                plan = DevClusterPlan(
                    name=name,
                    release=release,
                    nodes=nodes,
                    gpus=gpus,
                    cloud_nodes=cloud_nodes,
                    topology=network,
                    port_base=ports.choose_first_port(nodes, port_base),
                )
                HOME.mkdir(mode=0o755, exist_ok=True)
                HOME.chmod(0o755)
                plan.root.mkdir(mode=0o755)
                plan.root.chmod(0o755)
                plan.write()
                users.ensure_users()
            cluster = _start_planned_cluster(plan, base, progress)
        except BaseException:
            _take_down(name)
            raise
        progress(f"{nodes} nodes are idle after {time.monotonic() - began:.1f} s.")
        return cluster


def _choose_topology(choice: str | None, nodes: int, cloud_nodes: int) -> DevTopology:
    real, clouds = names_of_nodes(nodes), names_of_nodes(cloud_nodes, "c")
    if choice is None or choice in ARRANGEMENTS:
        return make_arranged_topology(choice, real, clouds)
    return from_file(Path(choice), [*real, *clouds])


def _need_root(verb: str) -> None:
    if os.geteuid() != 0:
        raise SetupError(
            f"`aitne dev cluster {verb}` needs root, since daemons of several users are started: "
            "run it with sudo."
        )


def _find_running_cluster(name: str, progress: Progress) -> DevCluster | None:
    cluster, plan = find_dev_cluster(name), read_plan(name)
    if cluster is None or plan is None:
        return None
    found_pids = cluster_state.find_daemon_pids(plan)
    dead = [daemon for daemon, pid in found_pids.items() if pid is None]
    if len(dead) == len(found_pids):
        return None
    progress(f"The cluster {name} runs already; nothing was changed.")
    if dead:
        progress(
            f"Not running: {', '.join(dead)}. `aitne dev cluster down` and `up` make a new cluster."
        )
    return cluster


def _install_slurm(release: ReleaseName, progress: Progress) -> Path | None:
    if release != "system":
        return root_file_systems.ensure_root_file_system(release, progress)
    needed = (*packages.SLURM, "python3")
    apt_installation.install_missing(needed, progress, purpose=packages.PURPOSE)
    return None


def _start_planned_cluster(
    plan: DevClusterPlan, base: Path | None, progress: Progress
) -> DevCluster:
    if base is not None:
        root_file_systems.mount_root_file_system(plan, base, users.list_user_names())
    release = cluster_state.slurm_release(plan)
    version = tuple(map(int, release.split(".")))
    plan.topology.check(version)
    progress(f"Starting Slurm {release} with {plan.nodes} nodes in {plan.root} …")
    cluster_folder.make_cluster_files(plan, version)
    munged = daemons.make_munged_daemon(plan)
    daemons.launch_daemon(plan, munged)
    accounting.make_database(plan)
    mariadbd = daemons.make_mariadbd_daemon(plan)
    daemons.launch_daemon(plan, mariadbd)
    daemons.wait_ready(plan, munged, mariadbd)
    accounting.make_login(plan)
    _start_one(plan, daemons.make_slurmdbd_daemon(plan))
    accounting.create_accounts(plan)
    _start_one(plan, daemons.make_slurmctld_daemon(plan))
    accounting.limit_gpus(plan)
    rest = [
        daemons.make_slurmrestd_daemon(plan),
        *(daemons.make_slurmd_daemon(plan, name) for name in plan.node_names),
    ]
    for daemon in rest:
        daemons.launch_daemon(plan, daemon)
    daemons.wait_ready(plan, *rest)
    cluster_state.wait_idle(plan)
    broker.write_settings(plan, PYTHON)
    _start_one(plan, daemons.the_broker(plan))
    return _write_descriptor(plan, release)


def _start_one(plan: DevClusterPlan, daemon: daemons.Daemon) -> None:
    daemons.launch_daemon(plan, daemon)
    daemons.wait_ready(plan, daemon)


def _write_descriptor(plan: DevClusterPlan, release: str) -> DevCluster:
    cluster = DevCluster(
        name=plan.name,
        root=plan.root,
        slurm_release=release,
        slurm_conf=plan.slurm_conf,
        command_prefix=plan.prefix,
        rest_url=plan.rest_url,
        jwt_key=plan.jwt_key,
        operator=users.OPERATOR,
        broker_socket=plan.broker_socket,
        software_dir=plan.software,
        scratch_dir=plan.scratch,
        python=PYTHON,
        nodes=plan.node_names,
        users=users.USERS,
        ports=plan.ports,
    )
    path = DESCRIPTORS / f"{plan.name}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(cluster.model_dump_json(indent=2) + "\n", encoding="utf-8")
    partial.chmod(0o644)
    partial.rename(path)
    return cluster


def remove_cluster(name: str, *, progress: Progress) -> bool:
    """Stop a cluster and remove everything that was created for it, also after a crash; return
    False if there was none.

    Raises:
        InvalidInput: the name is invalid.
        SetupError: this process is not root, a process does not end, or a mount is in use.
    """
    check_name(name)
    _need_root("down")
    with hold_cluster_lock(name):
        if not (HOME / name).exists() and not (DESCRIPTORS / f"{name}.json").exists():
            return False
        progress(f"Ending the cluster {name} …")
        _take_down(name)
    return True


def _take_down(name: str) -> None:
    plan = _plan_or_guess(name)
    _end_jobs(plan)
    _kill_all(plan)
    (DESCRIPTORS / f"{name}.json").unlink(missing_ok=True)
    (DESCRIPTORS / f"{name}.partial").unlink(missing_ok=True)
    root_file_systems.unmount_all_below(plan.root)
    with hold_cluster_lock(ALL):
        root_file_systems.remove_cluster_folder(plan.root)
        if HOME.exists() and not any(path.is_dir() for path in HOME.iterdir()):
            users.remove_users()
            HOME.rmdir()


def _plan_or_guess(name: str) -> DevClusterPlan:
    # Without a valid plan the name determines all paths.
    try:
        plan = read_plan(name)
    except SetupError:
        plan = None
    return plan or DevClusterPlan(
        name=name, release="system", nodes=1, gpus=0, cloud_nodes=0, port_base=ports.FIRST
    )


def _end_jobs(plan: DevClusterPlan) -> None:
    """Cancel running jobs, so that their programs get the usual signals; do nothing if no slurmctld
    is running.
    """

    def jobs() -> bool:
        return any(process.job for process in processes.find_cluster_processes(plan))

    if not jobs() or cluster_state.find_daemon_pids(plan)["slurmctld"] is None:
        return
    for partition in ("gpu", "debug"):
        argv = [*plan.prefix, "scancel", "--quiet", "--partition", partition]
        try:
            run_program(
                argv, env=make_environment(plan.root, plan.slurm_conf), timeout_s=_STEPS_END_S
            )
        except SetupError:
            return  # the controller does not answer; the remaining processes are killed
    processes.wait_until(lambda: not jobs(), _STEPS_END_S)


def _kill_all(plan: DevClusterPlan) -> None:
    remaining: list[int] = []

    def gone() -> bool:
        remaining[:] = [process.pid for process in processes.find_cluster_processes(plan)]
        processes.kill_processes(remaining, signal.SIGKILL)
        return not remaining

    if not processes.wait_until(gone, _KILLED_S):
        raise SetupError(
            f"Processes {', '.join(map(str, remaining))} of the cluster {plan.name} do not end, "
            "not even by SIGKILL; nothing was removed."
        )
