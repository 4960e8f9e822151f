"""The facts about Slurm and the machines that later tests depend on."""

from __future__ import annotations

import subprocess

import pytest

from tests.machines.machine import MachineError
from tests.machines.slurm import OPERATOR, SlurmCluster
from tests.support import realtime

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(600),
    realtime.MACHINES,
]

TWO_NODES = """\
#!/bin/sh
srun sh -c 'echo $(hostname) $(id -un) $SLURM_JOB_GPUS'
"""


def test_a_job_of_alice_runs_on_both_nodes_with_gpus(cluster: SlurmCluster) -> None:
    options = ["--nodes=2", "--gpus-per-node=a100:2", "--output=two.log"]

    job = cluster.sbatch("alice", TWO_NODES, *options)

    cluster.wait(lambda: cluster.job_state(job) == "COMPLETED", 60, "the job completed")
    log = (cluster.fleet.shared("home") / "alice/two.log").read_text()
    assert sorted(log.splitlines()) == ["n1 alice 0,1", "n2 alice 0,1"]


def test_users_see_their_own_jobs_and_the_operator_sees_all(cluster: SlurmCluster) -> None:
    job = cluster.sbatch("alice", "#!/bin/sh\nsleep 300\n", "--output=/dev/null")

    def seen_by(user: str) -> bool:
        listed = cluster.portal.run(["squeue", "-h", "-o", "%i"], user=user).stdout.split()
        return str(job) in listed

    try:
        assert {user: seen_by(user) for user in ("alice", "bob", OPERATOR)} == {
            "alice": True,
            "bob": False,
            OPERATOR: True,
        }
        with pytest.raises(MachineError, match="denied"):
            cluster.portal.run(["scancel", "--verbose", str(job)], user="bob")
    finally:
        cluster.portal.run(["scancel", str(job)], user="alice")
    cluster.wait_idle()


def test_slurmrestd_answers_a_token(cluster: SlurmCluster) -> None:
    token = cluster.portal.run(["scontrol", "token", "username=alice"]).stdout.strip()
    header = f"X-SLURM-USER-TOKEN: {token.removeprefix('SLURM_JWT=')}"
    url = f"http://{cluster.portal.address}:6820/slurm/v0.0.42/jobs/"
    asked = ["curl", "--silent", "--noproxy", "*", "--write-out", "%{http_code}", "--output"]

    def status(*headers: str) -> str:
        argv = [*asked, "/dev/null", *[f"-H{one}" for one in headers], url]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    cluster.wait(lambda: status(header) == "200", 10, "slurmrestd answers")
    assert status("X-SLURM-USER-TOKEN: wrong") != "200"


def test_a_machine_that_loses_power_fails_its_job_and_comes_back(cluster: SlurmCluster) -> None:
    n2 = cluster.nodes["n2"]
    n2.put("/root/before", "kept")
    options = ["--nodelist=n2", "--no-requeue", "--output=/dev/null"]
    job = cluster.sbatch("alice", "#!/bin/sh\nsleep 600\n", *options)
    cluster.wait(lambda: cluster.job_state(job) == "RUNNING", 30, "the job runs")

    n2.power_cut()

    cluster.wait(lambda: cluster.job_state(job) == "NODE_FAIL", 120, "the job failed with its node")
    assert cluster.node_state("n2").startswith("down")
    assert cluster.node_state("n1") == "idle"

    n2.boot()
    n2.wait_ready()
    cluster.wait_idle()
    assert n2.get("/root/before") == b"kept"


def test_a_cut_cable_is_a_network_that_is_gone_and_a_machine_that_is_not(
    cluster: SlurmCluster,
) -> None:
    n2 = cluster.nodes["n2"]

    def reached() -> bool:
        return cluster.portal.run(["ping", "-c1", "-W1", "n2"], check=False).returncode == 0

    assert reached()
    n2.cut_cable()
    try:
        assert not reached()
        assert n2.run(["hostname"]).stdout == "n2\n"
    finally:
        n2.mend_cable()
    cluster.wait(reached, 30, "n2 is back on the network")
    cluster.wait_idle()
