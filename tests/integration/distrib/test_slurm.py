"""Jobs of two ranks on each of two nodes of a real Slurm, as one of its users."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.integration.distrib.conftest import SAY, log_of, two_by_two
from tests.support import realtime
from tests.support.slurm import run_as
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(400),
    realtime.PLATFORM,
]

until = partial(eventually, within_s=90, poll_s=0.2)
UP = "echo up; while :; do sleep .05; done"


def ranks_of(job_id: str) -> list[int]:
    """Return the running processes of a job's ranks on all nodes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        mine = any(
            each.startswith(b"AITNE_JOB_DIR=") and job_id.encode() in each for each in environ
        )
        if mine and any(each.startswith(b"RANK=") for each in environ):
            found.append(int(entry.name))
    return found


def test_ranks_run_as_alice_on_two_nodes(alice: Client) -> None:
    job = alice.jobs.create(two_by_two(f"python3 -c '{SAY}'; id -un"))
    ended = alice.jobs.wait(job.id, timeout_s=120)
    log = log_of(alice, job.id)
    assert ended.state == "COMPLETED", log
    lines = log.splitlines()
    assert lines.count("alice") == 4
    told = [
        line for line in lines if line.startswith("aitne-run:") and "OMP_NUM_THREADS" not in line
    ]
    assert not told, "nobody is blamed for what the platform has chosen"
    said = [dict(word.split("=") for word in line.split()) for line in lines if "RANK=" in line]
    places = {(line["RANK"], line["LOCAL_RANK"], line["SLURMD_NODENAME"]) for line in said}
    first, second = ended.nodes
    assert places == {("0", "0", first), ("1", "1", first), ("2", "0", second), ("3", "1", second)}


def test_each_node_has_its_own_gpus(alice: Client) -> None:
    gpus = {"nodes": 2, "cpu": 1, "memory": "300M", "gpu": 1}
    say = 'echo "gpus $RANK $CUDA_VISIBLE_DEVICES"'
    job = alice.jobs.create(two_by_two(say, resources=gpus, distributed={"backend": "gloo"}))
    alice.jobs.wait(job.id, timeout_s=120)
    lines = [line.split() for line in log_of(alice, job.id).splitlines() if line.startswith("gpus")]
    assert sorted(rank for _, rank, _ in lines) == ["0", "1"], "one rank for each GPU"
    assert all(len(devices.split(",")) == 1 for *_, devices in lines)


def test_a_killed_rank_is_named(alice: Client) -> None:
    job = alice.jobs.create(two_by_two("echo up; [ $RANK != 3 ] || kill -9 $$; sleep 120"))
    ended = alice.jobs.wait(job.id, timeout_s=120)
    assert (ended.state, ended.exit_code) == ("FAILED", 137), log_of(alice, job.id)
    assert ended.message == f"Rank 3 on node {ended.nodes[1]} was ended by signal 9 (SIGKILL)."
    until("no rank is left", lambda: not ranks_of(job.id))


def test_a_cancelled_job_tells_every_rank_and_leaves_none(alice: Client) -> None:
    told = "trap 'echo rank $RANK was told; exit 0' TERM; "
    job = alice.jobs.create(two_by_two(told + UP))
    until("all ranks are up", lambda: log_of(alice, job.id).count("up\n") == 4)
    alice.jobs.cancel(job.id)
    assert alice.jobs.wait(job.id, timeout_s=90).state == "CANCELLED"
    until("no rank is left", lambda: not ranks_of(job.id))
    said = set(log_of(alice, job.id).splitlines())
    assert {f"rank {rank} was told" for rank in range(4)} <= said


def test_the_time_limit_tells_every_rank(alice: Client) -> None:
    told = "trap 'echo rank $RANK was told; exit 0' USR1; "
    # slurmctld looks every 30 s and signals up to 30 s early: before 20 s no rank hears of it, for it may not be up.
    fields = {"max_duration": "2m", "slurm": {"signal": "USR1@70"}}
    job = alice.jobs.create(two_by_two(told + UP, **fields))
    assert alice.jobs.wait(job.id, timeout_s=150).state == "COMPLETED", log_of(alice, job.id)
    said = set(log_of(alice, job.id).splitlines())
    assert {f"rank {rank} was told" for rank in range(4)} <= said


SAVE = (
    "if [ -e $AITNE_CHECKPOINTS/saved ]; then echo resumed $AITNE_RUN_RESTARTS; exit 0; fi;"
    " trap 'touch $AITNE_CHECKPOINTS/saved; exit 75' TERM USR1; "
)


def test_job_that_saves_on_signal_is_retried(slurm_cluster: DevCluster, alice: Client) -> None:
    job = alice.jobs.create(two_by_two(SAVE + UP, retry={"max": 1}))
    until("all ranks are up", lambda: log_of(alice, job.id).count("up\n") == 4)
    number = alice.jobs.get(job.id).scheduler_id
    run_as(slurm_cluster, "alice", "scancel", "--batch", "--signal=USR1", str(number))
    ended = alice.jobs.wait(job.id, timeout_s=150)
    assert (ended.state, ended.attempt) == ("COMPLETED", 2), log_of(alice, job.id)
    assert log_of(alice, job.id).count("resumed 1") == 4


def test_slurms_own_requeue_goes_on_from_the_checkpoint(
    slurm_cluster: DevCluster, alice: Client
) -> None:
    job = alice.jobs.create(two_by_two(SAVE + UP, retry={"max": 1}))
    until("all ranks are up", lambda: log_of(alice, job.id).count("up\n") == 4)
    number = str(alice.jobs.get(job.id).scheduler_id)
    operator = slurm_cluster.operator
    run_as(slurm_cluster, operator, "scontrol", "requeue", number)

    def waits() -> bool:
        listed = run_as(slurm_cluster, operator, "squeue", "-h", "-j", number, "-o", "%t")
        return listed.strip() == "PD"

    until("it waits again", waits)
    # Slurm lets a requeued job wait for two minutes; an operator need not, but for as long as its
    # nodes refuse what was allowed before the same second's end.
    run_as(slurm_cluster, operator, "scontrol", "update", f"jobid={number}", "starttime=now+3")
    until("its end", lambda: alice.jobs.get(job.id).ended)
    ended = alice.jobs.get(job.id)
    found = (ended.state, ended.attempt, ended.raw["restart_count"])
    assert found == ("COMPLETED", 1, 1), (ended.message, log_of(alice, job.id))
    assert log_of(alice, job.id).count("resumed 1") == 4


def test_the_profile_arrives(alice: Client) -> None:
    document = {"schema": 1, "written_at": "2026-03-01T12:00:00Z", "size": 4, "steps": 7}
    write = (
        f"[ $RANK != 0 ] || echo '{json.dumps(document)}' > $AITNE_RUN_DIR/profile.json; sleep 1"
    )
    job = alice.jobs.create(two_by_two(write))
    assert alice.jobs.wait(job.id, timeout_s=120).state == "COMPLETED"
    assert alice.jobs.profile(job.id)["steps"] == 7


@pytest.mark.long(third=2)
def test_session_on_two_nodes_outlives_the_agent_of_the_other_node(
    slurm_cluster: DevCluster, alice: Client
) -> None:
    resources = {"nodes": 2, "cpu": 1, "memory": "700M"}
    file = {"type": "session", "template": "jupyterlab", "resources": resources}
    session = alice.jobs.create(file)
    until("it is ready", lambda: alice.jobs.get(session.id).state == "READY")
    first, second = alice.jobs.get(session.id).nodes

    def measured() -> bool:
        samples = alice.jobs.metrics(session.id)["samples"]
        return {sample["node"] for sample in samples} == {first, second}

    until("samples of both nodes", measured)
    number = str(alice.jobs.get(session.id).scheduler_id)
    steps = run_as(slurm_cluster, "alice", "squeue", "-h", "-s", "-j", number, "-o", "%i %N")
    (step,) = [line.split()[0] for line in steps.splitlines() if line.split()[1] == second]
    run_as(slurm_cluster, "alice", "scancel", "--signal=KILL", step)
    until("the node is named", lambda: alice.jobs.get(session.id).message is not None)
    now = alice.jobs.get(session.id)
    assert (now.state, now.message) == (
        "READY",
        f"Node {second} was lost, with the ranks. The session continues without ranks.",
    ), log_of(alice, session.id)
    alice.jobs.cancel(session.id)
    assert alice.jobs.wait(session.id, timeout_s=120).state == "CANCELLED"
    assert not ranks_of(session.id)
