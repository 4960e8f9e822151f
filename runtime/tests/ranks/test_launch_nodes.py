"""``aitne-run`` on several nodes, which are one machine here, and inside other launchers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import realtime
from tests.support.launching import ON, RUN, SAVES, StartedRun, clean, nothing_left, program, run
from tests.support.requirements import lacking
from tests.support.topologies import ASSETS
from tests.support.waiting import eventually

pytestmark = realtime.RANKS

__all__ = ["nothing_left"]


# --- several nodes -------------------------------------------------------------------------------


def nodes(folder: Path, key: str, ranks: str, *words: str) -> list[subprocess.Popen[str]]:
    """Start the launchers of two nodes, both on this machine."""
    return [
        subprocess.Popen(
            [
                *RUN,
                "node",
                "--nodes",
                "2",
                "--node-rank",
                str(index),
                "--ranks",
                ranks,
                "--run-dir",
                str(folder),
                "--job",
                key,
                *words,
            ],
            env=clean(SLURMD_NODENAME=f"n{index + 1}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in (1, 0)  # the first one comes last
    ][::-1]


def both(started: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    found = [process.communicate(timeout=90) for process in started]
    return [(each.returncode, *texts) for each, texts in zip(started, found, strict=True)]


def test_nodes_number_their_ranks_in_order_and_meet(tmp_path: Path) -> None:
    text = (
        "from aitne_train.launcher.rendezvous_store_client import join_store\nfrom aitne_train.launcher.rank_detection import detect_topology\n"
        "world = detect_topology(os.environ); store = join_store(world, os.environ); store.set(f'from{rank}', b'')\n"
        "for each in range(world.size): store.get(f'from{each}', 30)\n"
        "names = ('RANK', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'HOROVOD_CROSS_RANK', 'HOROVOD_CROSS_SIZE', 'GROUP_RANK')\n"
        "print(*(os.environ[name] for name in names))"
    )
    first, second = both(nodes(tmp_path, "a", "2,1", *program(text)))
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert sorted(first[1].splitlines()) == ["0 0 2 0 2 0", "1 1 2 0 1 0"]
    assert second[1].splitlines() == ["2 0 1 1 2 1"]
    assert list(tmp_path.glob("rendezvous*")) == []


def test_a_rank_that_fails_on_another_node_ends_all_and_is_named(tmp_path: Path) -> None:
    text = "import time\nif rank == 3: raise ValueError('no such data')\ntime.sleep(600)"
    first, second = both(nodes(tmp_path, "a", "2", *program(text)))
    assert (first[0], second[0]) == (1, 1)
    assert "rank 3 on node n2 ended with exit code 1" in first[2]
    assert "  | ValueError: no such data" in first[2]
    facts = json.loads((tmp_path / "failed-1.json").read_text())
    assert (facts["rank"], facts["node"], facts["exit_code"], facts["signal"]) == (3, 1, 1, None)
    assert not (tmp_path / "failed-0.json").exists()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_node_that_is_gone_ends_the_others(tmp_path: Path, lost: int) -> None:
    text = "open(os.environ['AITNE_RUN_DIR'] + f'/here{rank}', 'w').close(); import time; time.sleep(600)"
    started = nodes(tmp_path, "a", "1", *program(text))
    eventually("all ranks are there", lambda: len(list(tmp_path.glob("here*"))) == 2)
    os.kill(started[lost].pid, signal.SIGKILL)
    other = both(started)[1 - lost]
    assert other[0] == 1
    assert ("node n2 is lost" if lost else "the first node is lost") in other[2]


def test_an_address_that_an_earlier_run_has_left_is_not_followed(tmp_path: Path) -> None:
    killed = nodes(tmp_path, "a", "1", *program("import time; time.sleep(600)"))
    eventually("the address is there", lambda: list(tmp_path.glob("rendezvous*")))
    for each in killed:
        each.kill()
    both(killed)
    assert [each[0] for each in both(nodes(tmp_path, "a", "1", *program("")))] == [0, 0]


def test_a_node_that_waits_in_vain_says_so(tmp_path: Path) -> None:
    first, second = nodes(tmp_path, "a", "1", "--timeout", "1", *program(""))
    second.kill()
    second.communicate()
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "did not join in time" in errors or "node number 1 is gone" in errors
    done = run(
        "node",
        "--nodes",
        "2",
        "--node-rank",
        "1",
        "--ranks",
        "1",
        "--run-dir",
        str(tmp_path),
        "--job",
        "b",
        "--timeout",
        "1",
        "true",
    )
    assert done.returncode == 1
    assert "has waited 1 s for the first one" in done.stderr


def test_starts_nodes_by_ssh(tmp_path: Path) -> None:
    """A program in the place of ssh runs the remote command on this machine."""
    stand_in = tmp_path / "ssh"
    stand_in.write_text(
        '#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nshift\nexport SLURMD_NODENAME=$1\nshift\nexec sh -c "$*"\n'
    )
    stand_in.chmod(0o755)
    env = clean(PATH=f"{tmp_path}:{os.environ['PATH']}", MINE="kept")
    text = "print(rank, os.environ['GROUP_RANK'], os.environ['MINE'], os.environ['MASTER_ADDR'], os.getcwd())"
    done = run("-H", "a:2,b:1", *program(text), env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} {node} kept a {tmp_path}" for rank, node in ((0, 0), (1, 0), (2, 1))
    ]
    begun = StartedRun("-H", "a:1,b:1", *program(SAVES + ON), env=env)
    begun.ready(2)
    os.kill(begun.pid, signal.SIGTERM)
    code, errors = begun.end()
    assert code == 75, errors


def test_ssh_nodes_are_numbered_by_the_topology(tmp_path: Path) -> None:
    stand_in = tmp_path / "ssh"
    stand_in.write_text(
        '#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nshift\nexport SLURMD_NODENAME=$1\nshift\nexec sh -c "$*"\n'
    )
    stand_in.chmod(0o755)
    topology = ASSETS / "slurm_file" / "fattree_interleaved.conf"
    env = clean(PATH=f"{tmp_path}:{os.environ['PATH']}", AITNE_TOPOLOGY=str(topology))
    text = (
        "print(rank, os.environ['SLURMD_NODENAME'], os.environ['MASTER_ADDR'], "
        "','.join(open(os.environ['AITNE_HOSTFILE']).read().split('\\n')))"
    )
    hosts = "gpu00:1,gpu01:1,gpu04:1,gpu05:1"
    done = run("-H", hosts, *program(text), env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "aitne: rank order: 4 -> 2 crossings, busiest uplink 2 -> 1\n" in done.stderr
    order = ["gpu00", "gpu04", "gpu01", "gpu05"]
    file = "".join(f"{name} slots=1," for name in order)
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} {name} gpu00 {file}" for rank, name in enumerate(order)
    ]


def test_ssh_alone_carries_the_environment(tmp_path: Path) -> None:
    """The environment travels over ssh and not in the store, which is not encrypted; 100 kB arrive."""
    stand_in = tmp_path / "ssh"
    stand_in.write_text(
        f"""#!{sys.executable}
import json, os, subprocess, sys
from aitne_train.launcher.rendezvous_store_client import RendezvousClient
line = sys.stdin.readline()
way = json.loads(line)
spec = RendezvousClient(way["addresses"], way["token"]).get("spec", 10)
print("in the clear:", b"hidden" in spec, flush=True)
child = subprocess.run(["sh", "-c", sys.argv[-1]], input=line.encode())
sys.exit(child.returncode)
"""
    )
    stand_in.chmod(0o755)
    env = clean(PATH=f"{tmp_path}:{os.environ['PATH']}", MY_SECRET="hidden", LONG="x" * 100_000)
    text = "print(os.environ['MY_SECRET'], len(os.environ['LONG']))"
    done = run("-H", "a:1", "--launcher", "ssh", *program(text), env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["hidden 100000", "in the clear: False"]


def test_a_node_that_ssh_does_not_reach_is_named(tmp_path: Path) -> None:
    stand_in = tmp_path / "ssh"
    stand_in.write_text("#!/bin/sh\necho Connection refused >&2; exit 255\n")
    stand_in.chmod(0o755)
    env = clean(PATH=f"{tmp_path}:{os.environ['PATH']}")
    done = run("-H", "a:1,b:1", "true", env=env)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert re.search("no ranks can be started on node [ab]", done.stderr)


# --- other launchers -----------------------------------------------------------------------------


# In one piece: mpirun puts together what comes when it comes.
SHOWN = """
from aitne_train.launcher.rank_detection import detect_topology
w = detect_topology(os.environ)
told = [os.environ[name] for name in ("HOROVOD_RANK", "MASTER_PORT")]
os.write(1, (" ".join(map(str, [w.rank, w.size, w.local_rank, w.source, *told])) + "\\n").encode())
"""


def mpirun() -> list[str]:
    if shutil.which("mpirun") is None:
        lacking("mpi", "needs mpirun: apt-get install openmpi-bin")
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"]


def test_becomes_the_program_under_mpirun() -> None:
    done = subprocess.run(
        [*mpirun(), *RUN, *program(SHOWN)],
        env=clean(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split() for line in done.stdout.splitlines())
    assert [line[:5] for line in lines] == [
        ["0", "2", "0", "mpi", "0"],
        ["1", "2", "1", "mpi", "1"],
    ]
    assert lines[0][5] == lines[1][5]


def test_port_stays_bound_in_the_program_that_replaces_the_launcher() -> None:
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    mpi = {f"OMPI_COMM_WORLD_{name}": "01"["SIZE" in name] for name in names}
    text = (
        "import socket\n"
        "port = int(os.environ['MASTER_PORT'])\n"
        "try: socket.socket().bind(('', port))\n"
        "except OSError: print('held')\n"
        "socket.create_server(('', port)).close()"
    )
    done = run(*program(text), env=clean(**mpi))
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr


def test_mpi_transports_are_started_by_mpirun() -> None:
    mpirun()
    env = clean(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
    )
    done = run(
        "-np",
        "2",
        "--transport",
        "mpi",
        *program("os.write(1, (os.environ['AITNE_TRANSPORT'] + '\\n').encode())"),
        env=env,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("mpi\n") == 2


def test_becomes_the_program_under_torchrun() -> None:
    torchrun = Path(sys.executable).with_name("torchrun")
    if not torchrun.exists():
        lacking("torch", "needs torch: make distrib")
    words = [str(torchrun), "--nproc-per-node", "2", "--no-python", *RUN, *program(SHOWN)]
    done = subprocess.run(
        words, env=clean(), capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split()[:5] for line in done.stdout.splitlines())
    assert lines == [["0", "2", "0", "torchrun", "0"], ["1", "2", "1", "torchrun", "1"]]


def test_refuses_another_number_of_ranks_than_the_world_has() -> None:
    env = clean(
        OMPI_COMM_WORLD_RANK="0",
        OMPI_COMM_WORLD_SIZE="2",
        OMPI_COMM_WORLD_LOCAL_RANK="0",
        OMPI_COMM_WORLD_LOCAL_SIZE="2",
    )
    done = run("-np", "4", "true", env=env)
    assert done.returncode == 1
    assert "4 ranks are requested inside a world of 2 that mpirun has started" in done.stderr
