"""Tests of the clean-up of a fleet, also after its owner was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines.fleet import Fleet, clear_leftovers
from tests.machines.machine import has_ended
from tests.machines.slurm import SlurmCluster
from tests.support import realtime
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(600),
    realtime.MACHINES,
]

CRASHING = """\
import os, signal
from tests.machines.fleet import Fleet
fleet = Fleet()
fleet.__enter__()
fleet.up(["n1"])
print(fleet.folder, fleet.network.bridge, fleet.machines["n1"].leader(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def traces(folder: Path, bridge: str) -> list[str]:
    """Return the kinds of a fleet's resources that still exist on this machine."""
    mounts = Path("/proc/self/mountinfo").read_text()
    rules = [
        subprocess.run(["iptables", "-t", table, "-S"], capture_output=True, text=True).stdout
        for table in ("nat", "filter")
    ]
    left = {
        "folder": folder.exists(),
        "bridge": (Path("/sys/class/net") / bridge).exists(),
        "mounts": f" {folder}/" in mounts,
        "rules": any(bridge in rule for rule in rules),
        "cgroups": any(Path("/sys/fs/cgroup").glob(f"**/aitne-{folder.name}-*")),
    }
    return [name for name, there in left.items() if there]


def test_process_has_ended_before_its_parent_reads_the_exit_status() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(process.pid)
    assert not has_ended(os.getpid())


def test_two_fleets_live_side_by_side_and_one_leaves_nothing(cluster: SlurmCluster) -> None:
    with Fleet() as fleet:
        (n1,) = fleet.up(["n1"])
        assert n1.address != cluster.nodes["n1"].address
        assert n1.run(["squeue"], check=False).returncode != 0
        assert len(traces(fleet.folder, fleet.network.bridge)) == 5

    assert traces(fleet.folder, fleet.network.bridge) == []
    assert cluster.node_state("n1") == "idle"


def test_the_next_run_clears_what_a_killed_one_left(cluster: SlurmCluster) -> None:
    root = Path(__file__).parents[2]
    argv = [sys.executable, "-c", CRASHING]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder, bridge, leader = done.stdout.split()
    assert len(traces(Path(folder), bridge)) == 5

    clear_leftovers()

    assert traces(Path(folder), bridge) == []
    eventually("its system is gone", lambda: not Path("/proc", leader).exists())
    assert cluster.node_state("n1") == "idle"
