"""``aitne-run`` in a user's own job of a real Slurm, on two nodes with two tasks each."""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path

import pytest

import aitne_train.launcher
import aitne_train.topology
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support import realtime
from tests.support.slurm import run_as, sbatch, wait_ended

pytestmark = realtime.SLURM

USER = "alice"
MAIN = "import sys\nfrom aitne_train.launcher.main import main\nsys.exit(main(sys.argv[1:]))\n"
JOB = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --output=out-%j
export OMP_NUM_THREADS=1
aitne_run="/usr/bin/python3 $HOME/launcher.pyz"
"""
MEET = """
import os
from aitne_train.launcher.rendezvous_store_client import join_store
from aitne_train.launcher.rank_detection import detect_topology
world = detect_topology(os.environ)
store = join_store(world, os.environ)
store.set(f"from{world.rank}", b"")
for rank in range(world.size):
    store.get(f"from{rank}", 60)
node = os.environ["SLURMD_NODENAME"]
names = ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_RANK", "GROUP_RANK")
print("place", world.rank, world.size, *(os.environ.get(name) for name in names), node, flush=True)
store.set(f"done{world.rank}", b"")
for rank in range(world.size) if world.rank == 0 else ():
    store.get(f"done{rank}", 60)  # where srun started it, the store is in rank 0's process
"""
SAVE = """
import os, signal, sys, time
def save(number, frame):
    print("saved", os.environ["RANK"], flush=True)
    sys.exit(75)
signal.signal(signal.SIGUSR1, save)
open(f"up-{os.environ['SLURM_JOB_ID']}-{os.environ['RANK']}", "w").close()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(slurm_cluster: DevCluster) -> DevCluster:
    """A cluster with the launcher's archive and two programs in the user's home."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__main__.py", MAIN)
        archive.writestr("aitne_train/__init__.py", "")
        for package in (aitne_train.launcher, aitne_train.topology):
            for path in Path(str(package.__file__)).parent.glob("*.py"):
                archive.write(path, f"aitne_train/{path.parent.name}/{path.name}")
    for name, content in (
        ("launcher.pyz", packed.getvalue()),
        ("meet.py", MEET.encode()),
        ("save.py", SAVE.encode()),
    ):
        text = base64.b64encode(content).decode()
        run_as(slurm_cluster, USER, "sh", "-c", f"base64 -d > ~/{name}", stdin=text)
    return slurm_cluster


def log_of(cluster: DevCluster, script: str, *words: str) -> str:
    """Run a batch script to its end and return its output."""
    job = sbatch(cluster, USER, JOB + script, *words)
    wait_ended(cluster, job, timeout_s=150)
    return run_as(cluster, USER, "cat", f"/home/{USER}/out-{job}")


def places(log: str) -> list[list[str]]:
    return sorted(line.split()[1:] for line in log.splitlines() if line.startswith("place "))


@pytest.mark.timeout(300)
def test_all_that_the_job_was_given(cluster: DevCluster) -> None:
    log = log_of(
        cluster, "PYTHONPATH=$HOME/launcher.pyz $aitne_run python3 $HOME/meet.py; echo code $?"
    )
    assert "code 0" in log, log
    found = places(log)
    assert [each[:6] for each in found] == [
        ["0", "4", "0", "0", "0", "0"],
        ["1", "4", "1", "1", "0", "0"],
        ["2", "4", "2", "0", "1", "1"],
        ["3", "4", "3", "1", "1", "1"],
    ]
    assert found[0][6] == found[1][6] != found[2][6] == found[3][6]


@pytest.mark.timeout(300)
def test_ranks_see_the_gpus_of_their_peers(cluster: DevCluster) -> None:
    """Also where the job was given one for each task: NCCL copies only between GPUs that it sees."""
    script = "$aitne_run sh -c 'echo gpus $RANK $CUDA_VISIBLE_DEVICES'\n"
    log = log_of(cluster, script, "--gpus-per-task=1")
    found = sorted(line.split()[1:] for line in log.splitlines() if line.startswith("gpus"))
    assert found == [[str(rank), "0,1"] for rank in range(4)], log


@pytest.mark.timeout(300)
def test_tasks_of_srun_become_the_program(cluster: DevCluster) -> None:
    log = log_of(
        cluster,
        "export PYTHONPATH=$HOME/launcher.pyz\n"
        "srun --quiet $aitne_run python3 $HOME/meet.py; echo code $?\n"
        "srun --quiet python3 $HOME/meet.py; echo code $?\n"
        "srun --quiet env -u SLURM_PROCID python3 $HOME/meet.py; echo code $?\n",
    )
    assert [line for line in log.splitlines() if line.startswith("code")] == [
        "code 0",
        "code 0",
        "code 1",
    ], log
    found = places(log)
    assert len(found) == 8
    assert [each[0] for each in found] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert "this is one of several tasks, and no variable says which one" in log


@pytest.mark.timeout(300)
def test_a_rank_that_fails_on_the_second_node_is_named(cluster: DevCluster) -> None:
    script = "$aitne_run sh -c 'if [ $RANK = 3 ]; then echo no data >&2; exit 9; fi; sleep 600'; echo code $?"
    log = log_of(cluster, script)
    assert "code 9" in log, log
    assert "aitne-run: rank 3 on node n" in log
    assert "  | no data" in log


@pytest.mark.timeout(300)
def test_signals_reach_every_node_and_a_killed_launcher_leaves_nothing(cluster: DevCluster) -> None:
    log = log_of(
        cluster,
        "up() { while [ $(ls up-$SLURM_JOB_ID-* 2>/dev/null | wc -l) != 4 ]; do sleep 0.1; done; rm up-$SLURM_JOB_ID-*; }\n"
        "$aitne_run python3 $HOME/save.py & up; kill -USR1 $!; wait $!; echo code $?\n"
        "$aitne_run python3 $HOME/save.py & up; kill -KILL $!; wait $!; echo code $?\n"
        "for try in $(seq 100); do pgrep -u $USER -f save.py > /dev/null || break; sleep 0.1; done\n"
        "pgrep -u $USER -f save.py || echo nothing is left\n",
    )
    lines = log.splitlines()
    assert {f"saved {rank}" for rank in range(4)} <= set(lines), log
    assert [line for line in lines if line.startswith("code")] == ["code 75", "code 137"]
    assert lines[-1] == "nothing is left"
