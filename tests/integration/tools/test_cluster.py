"""``aitne dev cluster``: from nothing to a Slurm that runs jobs, and back to nothing."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.adapters.broker_scheduler import BrokerScheduler
from aitne.adapters.user_folder_operations import BrokerUserFolders
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.storage.areas import AreaOwner, list_areas
from aitne.local_system.dev_cluster_records import DESCRIPTORS, find_dev_cluster
from aitne.local_system.settings_loader import load_settings
from aitne_devcluster import cluster_state, faults, processes, root_file_systems
from aitne_devcluster.locks import ALL, hold_cluster_lock
from aitne_devcluster.plan import HOME, DevClusterPlan, read_plan
from aitne_devcluster.processes import wait_until
from tests.support import realtime
from tests.support.slurm import (
    both_releases,
    cluster_name,
    root_or_skip,
    run_as,
    sbatch,
    wait_ended,
)

pytestmark = [
    pytest.mark.timeout(600),
    realtime.SLURM,
]

AITNE = (sys.executable, "-c", "from aitne.cli.main import run; run()", "dev", "cluster")
SHOW = "#!/bin/bash\necho $SLURM_ARRAY_TASK_ID $CUDA_VISIBLE_DEVICES $(id -un)\nsleep 2\n"


def aitne(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AITNE, *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a cluster of the test's own, which is taken down whatever happens."""
    root_or_skip()
    wanted = cluster_name("own")
    yield wanted
    aitne("down", "--name", wanted)


def left_of(plan: DevClusterPlan) -> list[object]:
    """Return the processes, mounts, files and ports that are left of a cluster."""
    paths = (plan.root, DESCRIPTORS / f"{plan.name}.json", DESCRIPTORS / f"{plan.name}.lock")
    return [
        *processes.find_cluster_processes(plan),
        *root_file_systems.mounts_below(plan.root),
        *(path for path in paths if path.exists()),
        *(processes.list_listening_ports() & set(plan.port_range)),
    ]


def people() -> set[tuple[str, bool]]:
    return {(user.pw_name, Path(user.pw_dir).exists()) for user in pwd.getpwall()}


def array_of_gpus(cluster: DevCluster, user: str, node: str) -> dict[int, tuple[str, str]]:
    """Run four tasks with a GPU each on one node at once; device and user by task."""
    out = Path(f"/home/{user}/{cluster.name}-%a.out")
    words = ["--array=0-3", "--gres=gpu:1", f"--nodelist={node}", f"--output={out}"]
    wait_ended(cluster, sbatch(cluster, user, SHOW, *words))
    found = {}
    for task in range(4):
        path = Path(str(out).replace("%a", str(task)))
        number, device, who = path.read_text().split()
        path.unlink()
        found[int(number)] = (device, who)
    return found


@both_releases
def test_an_array_of_a_users_jobs_has_a_gpu_for_each_task(slurm_cluster: DevCluster) -> None:
    found = array_of_gpus(slurm_cluster, "alice", "n2")
    assert {who for _, who in found.values()} == {"alice"}
    assert sorted(device for device, _ in found.values()) == ["0", "1", "2", "3"]


@both_releases
def test_the_operator_sees_what_users_do_not_see_of_each_other(slurm_cluster: DevCluster) -> None:
    job = sbatch(slurm_cluster, "alice", "#!/bin/bash\nsleep 60\n", "--output=/dev/null")
    seen = {
        user: run_as(slurm_cluster, user, "squeue", "-h", "-o", "%i").split()
        for user in ("alice", "bob", slurm_cluster.operator)
    }
    run_as(slurm_cluster, "alice", "scancel", job)
    assert job in seen["alice"]
    assert job in seen[slurm_cluster.operator]
    assert seen["bob"] == []


@both_releases
def test_limits_and_shards_are_in_force(slurm_cluster: DevCluster) -> None:
    job = sbatch(
        slurm_cluster, "alice", "#!/bin/bash\n", "--qos=short", "--time=20", "--output=/dev/null"
    )
    ask = ("squeue", "-h", "-j", job, "-o", "%r")
    assert wait_until(
        lambda: "QOSMaxWall" in run_as(slurm_cluster, "alice", *ask), 20, poll_s=0.2
    ), "no limit holds the job"
    run_as(slurm_cluster, "alice", "scancel", job)
    shared = sbatch(slurm_cluster, "bob", "#!/bin/bash\n", "--gres=shard:1", "--output=/dev/null")
    wait_ended(slurm_cluster, shared)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        sbatch(slurm_cluster, "bob", "#!/bin/bash\n", "--account=vision")
    assert "Invalid account" in refused.value.stderr


@both_releases
@pytest.mark.parametrize(
    "daemon",
    ["munged", "mariadbd", "slurmdbd", "slurmctld", "slurmrestd", "slurmd.n2", "broker"],
)
def test_a_killed_daemon_comes_back(slurm_cluster: DevCluster, daemon: str) -> None:
    before = faults.pid_of(slurm_cluster, daemon)
    assert before is not None
    assert (slurm_cluster.run_dir / f"{daemon}.pid").read_text().strip() == str(before)
    os.kill(before, signal.SIGKILL)
    assert wait_until(lambda: faults.pid_of(slurm_cluster, daemon) is None, 10)
    faults.restart_daemon(slurm_cluster, daemon)
    after = faults.pid_of(slurm_cluster, daemon)
    assert after not in (None, before)
    wait_ended(slurm_cluster, sbatch(slurm_cluster, "alice", "#!/bin/bash\n", "-o", "/dev/null"))


@both_releases
async def test_a_platform_reaches_the_cluster_through_its_broker(
    slurm_cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNE_SLURM__DEV_CLUSTER", slurm_cluster.name)
    scheduler = BrokerScheduler(load_settings(tmp_path, scheduler="slurm"))
    try:
        await scheduler.start()
        cluster = await scheduler.read_cluster()
    finally:
        await scheduler.close()
    gpus = {node.name: {gpu.type: gpu.total for gpu in node.gpus} for node in cluster.nodes}
    assert gpus == {name: {"h200": 4} for name in slurm_cluster.nodes}


async def test_the_broker_makes_a_users_scratch(
    slurm_cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNE_SLURM__DEV_CLUSTER", slurm_cluster.name)
    settings = load_settings(tmp_path, scheduler="slurm")
    user = pwd.getpwnam("bob")
    owner = AreaOwner(user=user.pw_name, uid=user.pw_uid, home=user.pw_dir)
    home, scratch = list_areas(settings.storage, owner)
    places = BrokerUserFolders(settings)
    try:
        assert await places.create_folders("bob", [scratch]) == []
        [found] = await places.read_areas("bob", [scratch])
    finally:
        await places.close()
    assert found.available
    assert found.writable
    assert Path(scratch.path).stat().st_uid == user.pw_uid
    assert Path(scratch.path).is_relative_to(slurm_cluster.root)
    assert home.path == user.pw_dir


def test_a_node_without_power_has_nothing_left_running(slurm_cluster: DevCluster) -> None:
    plan = read_plan(slurm_cluster.name)
    assert plan is not None
    script = "#!/bin/bash\nsetsid sleep 300 &\nsleep 300\n"
    words = ("--nodelist=n3", "--no-requeue", "--output=/dev/null")
    job = sbatch(slurm_cluster, "alice", script, *words)

    def on_node() -> list[processes.ClusterProcess]:
        return [
            found for found in processes.find_cluster_processes(plan) if found.daemon == "slurmd.n3"
        ]

    assert wait_until(lambda: sum(found.job for found in on_node()) >= 4, 20)
    faults.crash_node(slurm_cluster, "n3")
    assert on_node() == []
    faults.restart_daemon(slurm_cluster, "slurmd.n3")
    run_as(slurm_cluster, "alice", "scancel", job)
    wait_ended(slurm_cluster, job)
    cluster_state.wait_idle(plan)


def test_dev_cluster_with_running_jobs_is_removed_completely(name: str) -> None:
    alone = not list(DESCRIPTORS.glob("*.json"))
    before = people()
    done = aitne("up", "--name", name, "--nodes", "2", "--gpus", "2", "--cloud-nodes", "8")
    assert done.returncode == 0, done.stderr
    cluster, plan = find_dev_cluster(name), read_plan(name)
    assert cluster is not None
    assert plan is not None
    assert done.stdout.strip() == f"export SLURM_CONF={cluster.slurm_conf}"
    jobs = [
        sbatch(cluster, user, "#!/bin/bash\nsetsid sleep 300 &\nsleep 300\n", "-o", "/dev/null")
        for user in ("alice", "bob")
    ]
    assert wait_until(
        lambda: sum(found.job for found in processes.find_cluster_processes(plan)) >= 8, 20
    ), jobs

    shown = aitne("status", "--name", name, "--json")
    assert shown.returncode == 0, shown.stderr
    status = json.loads(shown.stdout)
    assert set(status["nodes"]) == {"n1", "n2"}
    assert all(status["daemons"].values())
    again = aitne("up", "--name", name, "--nodes", "3")
    assert again.returncode == 0
    assert "runs already; nothing was changed" in again.stderr
    assert (
        json.loads(aitne("status", "--name", name, "--json").stdout)["daemons"] == status["daemons"]
    )
    inside = aitne("shell", "--name", name, "--", "sinfo", "-h", "-p", "cloud", "-o", "%D")
    assert inside.stdout.strip() == "8", inside.stderr

    ended = aitne("down", "--name", name)
    assert ended.returncode == 0, ended.stderr
    assert left_of(plan) == []
    with hold_cluster_lock(ALL):  # no other one begins meanwhile
        if alone and not [*HOME.glob("*")]:
            assert people() == before
            assert not HOME.exists()
    second = aitne("down", "--name", name)
    assert second.returncode == 0
    assert f"There is no development cluster {name}." in second.stderr


@pytest.mark.parametrize("release", ["system", "trixie"])
@pytest.mark.parametrize("moment", ["munge/munged.pid", "log/slurmdbd.log", "run/slurmctld.pid"])
def test_dev_cluster_of_killed_start_is_removed(name: str, release: str, moment: str) -> None:
    argv = [*AITNE, "up", "--name", name]
    with subprocess.Popen(
        [*argv, "--slurm", release],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as starting:
        assert wait_until((HOME / name / moment).exists, 120)
        os.killpg(starting.pid, signal.SIGKILL)
    plan = read_plan(name)
    assert plan is not None
    assert processes.find_cluster_processes(plan)
    ended = aitne("down", "--name", name)
    assert ended.returncode == 0, ended.stderr
    assert left_of(plan) == []


def test_a_port_that_is_taken_is_named(slurm_cluster: DevCluster, name: str) -> None:
    taken = slurm_cluster.ports.slurmdbd
    done = aitne("up", "--name", name, "--port-base", str(taken))
    assert done.returncode == 1
    assert f"Port {taken} is in use" in done.stderr
    assert not (HOME / name).exists()


def test_invalid_dev_cluster_options_are_refused_before_creation(name: str) -> None:
    for words, said in (
        (("--nodes", "0"), "--nodes"),
        (("--gpus", "99"), "--gpus"),
        (("--name", "../etc"), "--name"),
    ):
        done = aitne("up", "--name", name, *words)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    assert not (HOME / name).exists()


def test_a_daemon_that_ends_at_once_is_shown_with_its_last_words(slurm_cluster: DevCluster) -> None:
    conf = slurm_cluster.root / "etc" / "slurmdbd.conf"
    good = conf.read_text()
    conf.write_text(good + "NoSuchOption=1\n")
    try:
        with pytest.raises(Exception, match=r"slurmdbd (did not start|ended).*NoSuchOption"):
            faults.restart_daemon(slurm_cluster, "slurmdbd")
    finally:
        conf.write_text(good)
        faults.restart_daemon(slurm_cluster, "slurmdbd")


def test_user_without_root_is_told_that_dev_cluster_needs_root() -> None:
    root_or_skip()
    program = (
        "import os, sys; import aitne_devcluster.cluster, aitne.cli.app, aitne.cli.commands.dev_cluster, "
        "aitne.cli.error_report; from aitne.cli.main import main; os.setgroups([]); os.setuid(65534); "
        "sys.exit(main(['dev', 'cluster', 'up', '--name', 'nobodys']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "needs root" in done.stderr
    assert "sudo" in done.stderr
