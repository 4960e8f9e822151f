"""The platform on a cluster of several machines, as its users meet it over the network."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from aitne.client import Client, Job
from aitne.core.errors import NotFound
from tests.machines.machine import MachineError
from tests.machines.platform import CONFIG, MachinesPlatform
from tests.machines.slurm import SYSTEM_USER
from tests.support import realtime
from tests.support.absence import AbsenceMeter

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(900),
    realtime.MACHINES,
]

SMALL = {"cpu": 1, "memory": "500M"}


@pytest.fixture(scope="module")
def alice(platform: MachinesPlatform) -> Client:
    return platform.client("alice")


def job_file(*commands: str, nodes: int = 1, **more: Any) -> Mapping[str, Any]:
    resources = SMALL | {"nodes": nodes} | more.pop("resources", {})
    common = {"type": "job", "name": "machines", "max_duration": "10m"}
    return common | {"commands": list(commands), "resources": resources} | more


def wait(
    platform: MachinesPlatform, client: Client, job: Job, *states: str, within_s: float
) -> Job:
    def reached() -> bool:
        return client.jobs.get(job.id).state in states

    platform.cluster.wait(reached, within_s, f"the job is {' or '.join(states)}")
    return client.jobs.get(job.id)


def test_a_job_runs_as_its_owner_on_both_nodes(platform: MachinesPlatform, alice: Client) -> None:
    command = "srun sh -c 'echo $(hostname) $(id -un) $SLURM_JOB_GPUS'"

    job = alice.jobs.create(job_file(command, nodes=2, resources={"gpu": "a100:2"}))

    ended = wait(platform, alice, job, "COMPLETED", "FAILED", within_s=60)
    log = b"".join(alice.jobs.logs(job.id)).decode()
    assert ended.state == "COMPLETED", log
    assert sorted(log.splitlines()) == ["n1 alice 0,1", "n2 alice 0,1"]
    assert sorted(ended.raw["nodes"]) == ["n1", "n2"]


def test_job_and_its_files_are_hidden_from_other_users(
    platform: MachinesPlatform, alice: Client
) -> None:
    job = alice.jobs.create(job_file("echo a secret of alice"))
    wait(platform, alice, job, "COMPLETED", within_s=60)
    bob = platform.client("bob")

    with pytest.raises(NotFound):
        bob.jobs.get(job.id)
    with pytest.raises(NotFound):
        b"".join(bob.jobs.logs(job.id))

    for user in ("bob", SYSTEM_USER):
        listed = platform.cluster.portal.run(
            ["find", "/home/alice", "-name", job.id], user=user, check=False
        )
        assert listed.returncode != 0
        assert job.id not in listed.stdout
    found = platform.cluster.portal.run(
        ["find", "/home/alice", "-name", job.id, "-printf", "%u\\n"], user="alice"
    )
    assert found.stdout == "alice\n"


def test_systemd_restarts_a_platform_whose_supervisor_was_killed(
    platform: MachinesPlatform, alice: Client
) -> None:
    job = alice.jobs.create(job_file("echo began; sleep 20; echo ended"))
    wait(platform, alice, job, "RUNNING", within_s=60)
    killed = platform.supervisor_pid()

    platform.cluster.portal.run(["kill", "-KILL", str(killed)])

    def restarted() -> bool:
        return platform.ready() and platform.supervisor_pid() != killed

    platform.cluster.wait(lambda: not platform.answers(), 30, "the platform is down")
    platform.cluster.wait(restarted, 120, "the platform is up again")
    ended = wait(platform, alice, job, "COMPLETED", "FAILED", within_s=60)
    assert b"".join(alice.jobs.logs(job.id)) == b"began\nended\n", ended.state


def test_reload_replaces_the_platform_and_a_failed_one_changes_nothing(
    platform: MachinesPlatform, alice: Client
) -> None:
    portal = platform.cluster.portal
    job = alice.jobs.create(job_file("echo began; sleep 20; echo ended"))
    wait(platform, alice, job, "RUNNING", within_s=60)
    before = platform.supervisor_pid()
    reload = ["systemctl", "reload", "aitne"]
    shown = ["systemctl", "show", "aitne", "--property=MainPID,ActiveState,NRestarts"]

    def unit() -> dict[str, str]:
        lines = portal.run(shown).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    restarts = unit()["NRestarts"]
    portal.run(["sed", "-i", "1i damaged", CONFIG])
    try:
        with pytest.raises(MachineError):
            portal.run(reload, timeout_s=120)
    finally:
        portal.run(["sed", "-i", "1d", CONFIG])
    assert platform.supervisor_pid() == before
    assert platform.ready()

    with AbsenceMeter(platform.url) as absence:
        portal.run(reload, timeout_s=180)
    log.info("The portal was away for %.1f s.", absence.longest_s)
    main = platform.supervisor_pid()
    assert main != before
    assert unit() == {"MainPID": str(main), "ActiveState": "active", "NRestarts": restarts}
    ended = wait(platform, alice, job, "COMPLETED", "FAILED", within_s=60)
    assert b"".join(alice.jobs.logs(job.id)) == b"began\nended\n", ended.state

    portal.run(["systemctl", "restart", "aitne"], timeout_s=180)
    assert platform.ready()
    assert platform.supervisor_pid() != main


def test_a_node_that_dies_ends_its_job_as_failed_by_the_node(
    platform: MachinesPlatform, alice: Client
) -> None:
    cluster = platform.cluster
    once = {"requeue": False}
    job = alice.jobs.create(job_file("echo began; sleep 600", nodes=2, slurm=once))
    wait(platform, alice, job, "RUNNING", within_s=60)
    n2 = cluster.nodes["n2"]

    n2.power_cut()
    try:
        ended = wait(platform, alice, job, "NODE_FAILED", "FAILED", within_s=150)
    finally:
        n2.boot()
        n2.wait_ready()

    assert ended.state == "NODE_FAILED"
    assert b"".join(alice.jobs.logs(job.id)).startswith(b"began")
    cluster.wait_idle(within_s=120)
    again = alice.jobs.create(job_file("hostname", nodes=2))
    assert wait(platform, alice, again, "COMPLETED", within_s=60).state == "COMPLETED"
