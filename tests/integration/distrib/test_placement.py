"""Order and nodes of jobs on a real Slurm whose node names do not follow the switches."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import signal
import socket
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aitne_train.launcher
import aitne_train.topology
from aitne.client import Client
from aitne.client.records import Job
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne_devcluster.cluster import remove_cluster, start_cluster
from tests.integration.distrib.conftest import log_of
from tests.support import realtime
from tests.support.browser import assert_portal_shows_order, chromium
from tests.support.platform import RunningPlatform, on_cluster, run_platform
from tests.support.slurm import cluster_name, root_or_skip, run_as, say, sbatch, wait_ended
from tests.support.training import shared_environment
from tests.support.waiting import eventually

__all__ = ["chromium"]

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(600),
    pytest.mark.long(third=2),
    realtime.PLATFORM,
]

until = partial(eventually, within_s=120, poll_s=0.2)
LEAVES = {
    frozenset({"n1", "n5"}),
    frozenset({"n2", "n6"}),
    frozenset({"n3", "n7"}),
    frozenset({"n4", "n8"}),
}
CHANGED = re.compile(
    r"rank order: (\d+) -> (\d+) crossings, busiest uplink (\d+) -> (\d+)", re.IGNORECASE
)
SAY = 'echo "place $RANK $SLURMD_NODENAME $MASTER_ADDR"'
ALL_REDUCE = """\
import os
import torch
from torch import distributed

distributed.init_process_group("gloo")
total = torch.tensor([1.0 + distributed.get_rank()])
distributed.all_reduce(total)
e = os.environ
print("place", e["RANK"], e["SLURMD_NODENAME"], e["MASTER_ADDR"], flush=True)
print("sum", int(total), flush=True)
distributed.destroy_process_group()
"""
TORCHRUN = (
    "{python} -m torch.distributed.run --nnodes $AITNE_NODES --node-rank $AITNE_NODE_RANK "
    "--nproc-per-node 1 --master-addr $MASTER_ADDR --master-port $MASTER_PORT all_reduce.py"
)
"""The command that docs/howto/placement.md starts on each node."""
STARTED_BY_THE_USER = (
    "SLURM_HOSTFILE=$AITNE_SLURM_HOSTFILE srun --overlap --distribution=arbitrary --ntasks=4 sh -c "
    "'echo \"place $SLURM_PROCID $SLURMD_NODENAME $MASTER_ADDR\"'"
)
"""A program started by srun; it prints the number of its task and MASTER_ADDR."""


@pytest.fixture(scope="module")
def interleaved() -> Iterator[DevCluster]:
    """A Slurm of eight nodes on four leaf switches."""
    root_or_skip()
    name = cluster_name("interleaved")
    cluster = start_cluster(name, nodes=8, gpus=0, topology="interleaved", progress=say)
    try:
        yield cluster
    finally:
        remove_cluster(name, progress=say)


@pytest.fixture(scope="module")
def on_rest(
    tmp_path_factory: pytest.TempPathFactory, interleaved: DevCluster
) -> Iterator[RunningPlatform]:
    """A platform that submits by slurmrestd."""
    with run_platform(on_cluster(tmp_path_factory.mktemp("rest"), interleaved)) as running:
        yield running


def alice_of(running: RunningPlatform) -> Client:
    return Client(running.url, running.token_of("alice"))


def on_four(*commands: str, **fields: Any) -> dict[str, Any]:
    return {
        "commands": list(commands),
        "resources": {"nodes": 4, "cpu": 1, "memory": "300M"},
        "max_duration": "10m",
        **fields,
    }


def places(log: str) -> list[tuple[str, str]]:
    """Return the nodes in the order of the ranks, each with the rank's MASTER_ADDR."""
    found = sorted(line.split()[1:] for line in log.splitlines() if line.startswith("place "))
    assert [rank for rank, *_ in found] == ["0", "1", "2", "3"], log
    return [(node, master) for _, node, master in found]


def assert_ordered(said: str, order: list[str]) -> None:
    """Assert that the text reports fewer crossings, and that neighbours share a leaf switch."""
    match = CHANGED.search(said)
    assert match is not None, said
    assert int(match[1]) > int(match[2])
    assert int(match[3]) > int(match[4])
    assert {frozenset(order[:2]), frozenset(order[2:])} <= LEAVES


def ordered_job(alice: Client, file: dict[str, Any]) -> tuple[Job, str, dict[str, Any]]:
    """Run a job whose ranks get a better order; return it with its log and placement."""
    job = alice.jobs.create(file)
    ended = alice.jobs.wait(job.id, timeout_s=240)
    log = log_of(alice, job.id)
    assert ended.state == "COMPLETED", log
    until("the placement is reported", lambda: alice.jobs.placement(job.id)["order"])
    placement = alice.jobs.placement(job.id)
    assert CHANGED.search(log) is None, "the log is that of the program alone"
    assert_ordered(placement["reason"], placement["order"])
    return ended, log, placement


@pytest.mark.parametrize("distributed", [True, False], ids=["ranks", "programs"])
def test_job_of_four_nodes_has_the_same_order_everywhere(
    on_rest: RunningPlatform, distributed: bool, chromium: str, tmp_path: Path
) -> None:
    """Ranks of the platform, also in the portal, and programs that the user starts on each node with srun."""
    alice = alice_of(on_rest)
    file = (
        on_four(SAY, distributed={"ranks_per_node": 1, "backend": "gloo"})
        if distributed
        else on_four(STARTED_BY_THE_USER)
    )
    job, log, placement = ordered_job(alice, file)
    order = placement["order"]
    assert sorted(placement["given"]) == sorted(order) == sorted(job.nodes)
    assert placement["crossings"]["given"] > placement["crossings"]["chosen"]
    assert placement["crossings"]["chosen"] == placement["crossings"]["best"]
    match = CHANGED.search(placement["reason"])
    assert match is not None
    costs = [
        placement[cost][which]
        for cost in ("crossings", "busiest_uplink")
        for which in ("given", "chosen")
    ]
    assert list(map(int, match.groups())) == costs
    found = places(log)
    assert [node for node, _ in found] == order
    # All nodes are this machine, whose name the ranks get.
    assert {master for _, master in found} == {socket.gethostname() if distributed else order[0]}
    environ = {"AITNE_URL": on_rest.url, "AITNE_TOKEN": on_rest.token_of("alice")}
    shown = on_rest.aitne("topology", "show", "--job", job.id, "--json", env=environ)
    assert json.loads(shown.stdout) == placement, shown.stderr
    if distributed:
        assert_portal_shows_order(on_rest, environ["AITNE_TOKEN"], job.id, chromium, tmp_path)


def test_torchrun_has_its_first_rank_on_the_first_node_of_the_order(
    on_rest: RunningPlatform, interleaved: DevCluster
) -> None:
    alice = alice_of(on_rest)
    run_as(interleaved, "alice", "sh", "-c", "cat > ~/all_reduce.py", stdin=ALL_REDUCE)
    with shared_environment() as shared:
        command = TORCHRUN.format(python=shared / "venv/bin/python")
        file = on_four(
            command,
            resources={"nodes": 4, "cpu": 1, "memory": "1G"},
            distributed={"ranks_per_node": 1, "backend": "gloo"},
        )
        _, log, placement = ordered_job(alice, file)
    order = placement["order"]
    assert order != placement["given"]
    assert places(log) == [(node, socket.gethostname()) for node in order]
    assert log.splitlines().count("sum 10") == 4


def test_first_node_of_an_order_in_a_file_is_the_master(
    on_rest: RunningPlatform, interleaved: DevCluster
) -> None:
    order = ["n6", "n1", "n5", "n2"]
    run_as(interleaved, "alice", "sh", "-c", "cat > ~/order.txt", stdin="\n".join(order) + "\n")
    alice = alice_of(on_rest)
    placement = {"nodes": ["n[1-2,5-6]"], "order": "file:~/order.txt"}
    job = alice.jobs.create(on_four(STARTED_BY_THE_USER, placement=placement))
    ended = alice.jobs.wait(job.id, timeout_s=240)
    log = log_of(alice, job.id)
    assert ended.state == "COMPLETED", log
    assert places(log) == [(node, "n6") for node in order]


def test_aitne_run_in_a_batch_script_orders_its_hosts(interleaved: DevCluster) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        main = (
            "import sys\nfrom aitne_train.launcher.main import main\nsys.exit(main(sys.argv[1:]))\n"
        )
        archive.writestr("__main__.py", main)
        archive.writestr("aitne_train/__init__.py", "")
        for package in (aitne_train.launcher, aitne_train.topology):
            for path in Path(str(package.__file__)).parent.glob("*.py"):
                archive.write(path, f"aitne_train/{path.parent.name}/{path.name}")
    text = base64.b64encode(packed.getvalue()).decode()
    run_as(interleaved, "alice", "sh", "-c", "base64 -d > ~/order.pyz", stdin=text)
    script = (
        "#!/bin/bash\n#SBATCH --nodes=4 --ntasks-per-node=1 --output=order-%j\n"
        f"/usr/bin/python3 $HOME/order.pyz sh -c '{SAY}'\n"
    )
    job = sbatch(interleaved, "alice", script)
    wait_ended(interleaved, job, timeout_s=240)
    log = run_as(interleaved, "alice", "cat", f"/home/alice/order-{job}")
    found = places(log)
    assert_ordered(log, [node for node, _ in found])
    assert len({master for _, master in found}) == 1


def test_slurm_stores_the_nodes_that_a_job_requests(
    on_rest: RunningPlatform, interleaved: DevCluster, tmp_path: Path
) -> None:
    """By sbatch: slurmrestd of 22.05 has no fields for them. The contract of schedulers has 24.11."""
    alice = alice_of(on_rest)
    placement = {"nodes": ["n3"], "exclude": ["n[1,4]"], "compact": "require", "wait": "30s"}
    file = on_four("true", placement=placement, hold=True)
    path = tmp_path / "job.aitne.yml"
    path.write_text(json.dumps(file))
    environ = {"AITNE_URL": on_rest.url, "AITNE_TOKEN": on_rest.token_of("alice")}
    planned = on_rest.aitne("plan", "-f", str(path), "--script", env=environ)
    assert planned.returncode == 0, planned.stderr
    lines = {tuple(line.split(maxsplit=2)) for line in planned.stdout.splitlines()}
    assert {
        ("#", "nodelist", "n3"),
        ("#", "exclude", "n[1,4]"),
        ("#", "switches", "at most 2, waits 30s for that"),
    } <= lines, planned.stdout
    job = alice.jobs.create(file)
    until("Slurm has it", lambda: alice.jobs.get(job.id).scheduler_id is not None)
    number = str(alice.jobs.get(job.id).scheduler_id)
    stored = run_as(interleaved, interleaved.operator, "scontrol", "show", "job", number)
    facts = dict(word.split("=", 1) for word in stored.split() if "=" in word)
    assert facts["ReqNodeList"] == "n3"
    assert facts["ExcNodeList"] == "n[1,4]"
    assert facts["Switches"] == "2@00:00:30"
    alice.jobs.cancel(job.id)
    assert alice.jobs.wait(job.id, timeout_s=120).state == "CANCELLED"


def engines_of(group: str) -> list[str]:
    """Return the nodes of the ranks that alice's notebook is connected to, in their order."""
    path = Path("/home/alice/.aitne/ranks") / group / "client.json"
    until("the ranks are connected", path.exists)
    ranks = sorted(json.loads(path.read_text())["ranks"], key=lambda each: int(each["rank"]))
    return [str(rank["node"]) for rank in ranks]


def test_ranks_of_notebooks_follow_the_order(on_rest: RunningPlatform) -> None:
    """Ranks beside a session, and ranks that its notebook starts."""
    alice = alice_of(on_rest)
    size = {"nodes": 4, "cpu": 1, "memory": "700M"}
    session = alice.jobs.create({"type": "session", "template": "jupyterlab", "resources": size})
    until("it is ready", lambda: alice.jobs.get(session.id).state == "READY")
    group = alice.sessions.start_ranks(session.id, 4, nodes=4, memory="700M")
    for job in (session.id, group.id):
        found = engines_of(job)
        placement = alice.jobs.placement(job)
        assert found == placement["order"]
        assert_ordered(placement["reason"], found)
        assert placement["crossings"]["chosen"] == placement["crossings"]["best"]
    # The app runs on the node that the scheduler names first.
    assert engines_of(session.id)[0] == alice.jobs.placement(session.id)["given"][0]
    alice.jobs.cancel(session.id)
    for job in (session.id, group.id):
        assert alice.jobs.wait(job, timeout_s=120).state == "CANCELLED"


def agents_of(number: str, node: str) -> list[int]:
    """Return the processes of the agent of a Slurm job on a node."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        here = {f"SLURM_JOB_ID={number}".encode(), f"SLURMD_NODENAME={node}".encode()}
        if here <= set(environ) and any(
            b"agent" in word and b"python" not in word for word in words
        ):
            found.append(int(entry.name))
    return found


def test_retry_after_a_killed_agent_excludes_its_node(on_rest: RunningPlatform) -> None:
    alice = alice_of(on_rest)
    wait = "[ $AITNE_RUN_RESTARTS != 0 ] || sleep 300"
    file = on_four(
        f"echo up; {wait}", distributed={"ranks_per_node": 1, "backend": "gloo"}, retry={"max": 1}
    )
    job = alice.jobs.create(file)
    until("all ranks are up", lambda: log_of(alice, job.id).count("up\n") == 4)
    # A rank may write its line before the controller has read the job's nodes from Slurm.
    *_, lost = until("the nodes of the job are known", lambda: alice.jobs.get(job.id).nodes)
    victims = agents_of(str(alice.jobs.get(job.id).scheduler_id), lost)
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    until("the second attempt runs or has ended", lambda: alice.jobs.get(job.id).attempt == 2)
    ended = alice.jobs.wait(job.id, timeout_s=240)
    assert ended.state == "COMPLETED", (ended.message, log_of(alice, job.id))
    assert len(ended.nodes) == 4
    assert lost not in ended.nodes
