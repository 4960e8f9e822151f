"""Slurm's daemons, nodes and disks fail under a platform that runs on it: nothing is lost, nothing runs twice."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.api.routers.probes_and_metrics import METRICS_TOKEN
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne_devcluster import faults
from tests.fault.storm import user_token
from tests.support import realtime
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(500),
    realtime.PLATFORM,
]

SMALL = {"cpu": 1, "memory": "32M"}


class Person:
    """A user of the platform who notes down what ran."""

    def __init__(self, platform: RunningPlatform, name: str) -> None:
        self.home = Path(pwd.getpwnam(name).pw_dir)
        self.folder = self.home / f"fault-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.ran = self.folder / "ran"
        self.ran.touch()
        for path in (self.folder, self.ran):
            shutil.chown(path, name, name)
        token = user_token(platform, name)
        self.line = httpx.Client(
            base_url=f"{platform.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=30,
        )

    def submit(self, *more: str, **fields: Any) -> str:
        """Submit a job that writes a line into the file at its end; return its id."""
        says = f'echo "$AITNE_JOB_ID ${{SLURM_ARRAY_TASK_ID:--}} $AITNE_ATTEMPT" >> {self.ran}'
        body = {
            "name": "fault",
            "commands": [*more, says],
            "resources": SMALL,
            "max_duration": "10m",
            **fields,
        }
        answer = self.line.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        """Return the job as the API shows it."""
        found: dict[str, Any] = self.line.get(f"/jobs/{job_id}").raise_for_status().json()
        return found

    def state(self, job_id: str) -> str:
        return str(self.job(job_id)["state"])

    def completed(self, job_id: str, within_s: float = 60) -> dict[str, Any]:
        """Wait for the good end."""

        def ended() -> dict[str, Any] | None:
            job = self.job(job_id)
            return job if job["ended_at"] else None

        try:
            job = eventually(f"job {job_id} ends", ended, within_s, 0.2)
        except AssertionError as late:
            raise AssertionError(f"{late}; it is {self.job(job_id)}") from late
        assert job["state"] == "COMPLETED", job
        return job

    def lines(self) -> list[str]:
        """Return the lines of the programs that ran, in order."""
        return self.ran.read_text().splitlines()

    def leave(self) -> None:
        """Close the connection and remove the folder, except for the jobs folders."""
        self.line.close()
        shutil.rmtree(self.folder)


@pytest.fixture
def alice(slurm_platform: RunningPlatform) -> Iterator[Person]:
    """A user with a new folder for each test."""
    user = Person(slurm_platform, "alice")
    yield user
    user.leave()


@pytest.fixture
def bob(slurm_platform: RunningPlatform) -> Iterator[Person]:
    """A user of this fixture's tests alone, so that changes to the jobs folder affect no other test."""
    user = Person(slurm_platform, "bob")
    yield user
    user.leave()


@pytest.fixture
def scontrol(slurm_cluster: DevCluster) -> Callable[..., str]:
    """A function that runs scontrol as root."""

    def run(*words: str) -> str:
        done = subprocess.run(
            [*slurm_cluster.command_prefix, "scontrol", *words],
            env=dict(os.environ) | slurm_cluster.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    return run


def part(platform: RunningPlatform, name: str) -> Mapping[str, Any]:
    """Return the entry of one part in `/readyz`; empty if there is none."""
    token = (platform.data_dir / "secrets" / METRICS_TOKEN).read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    found: dict[str, Any] = httpx.get(
        f"{platform.url}/readyz", headers=headers, trust_env=False, timeout=30
    ).json()
    return found["parts"].get(name, {})  # type: ignore[no-any-return]


def metric(platform: RunningPlatform, name: str) -> float | None:
    """Return the value of a metric; None if there is no such series."""
    token = (platform.data_dir / "secrets" / METRICS_TOKEN).read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    text = httpx.get(f"{platform.url}/metrics", headers=headers, trust_env=False, timeout=30).text
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(values[0]) if values else None


def hold(scontrol: Callable[..., str], cluster: DevCluster) -> None:
    """Keep every job waiting."""
    nodes = ",".join(cluster.nodes)
    scontrol("update", f"nodename={nodes}", "state=drain", "reason=test")


def let_go(scontrol: Callable[..., str], cluster: DevCluster) -> None:
    """Resume the nodes that `hold` drained.

    A slurmctld that has just started refuses while it does not know a node.
    """

    def usable(node: str) -> bool:
        if "DRAIN" in scontrol("show", "node", node).partition("State=")[2].partition(" ")[0]:
            try:
                scontrol("update", f"nodename={node}", "state=resume")
            except subprocess.CalledProcessError:
                return False
        return "DRAIN" not in scontrol("show", "node", node)

    for node in cluster.nodes:
        eventually(f"{node} takes jobs", lambda name=node: usable(name), 30, 0.5)


def test_slurmctld_kill9(
    alice: Person, slurm_cluster: DevCluster, scontrol: Callable[..., str]
) -> None:
    """It forgets jobs that it had acknowledged, and gives their ids to others."""
    hold(scontrol, slurm_cluster)
    lost = [alice.submit() for _ in range(8)]
    for job in lost:
        eventually("it is queued", lambda j=job: alice.state(j) == "QUEUED")
    pid = faults.pid_of(slurm_cluster, "slurmctld")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    faults.restart_daemon(slurm_cluster, "slurmctld")
    hold(scontrol, slurm_cluster)
    others = [alice.submit() for _ in range(8)]
    for job in others:
        eventually("it is queued", lambda j=job: alice.state(j) == "QUEUED")
    let_go(scontrol, slurm_cluster)
    jobs = [alice.completed(job) for job in (*lost, *others)]
    ran = [line.split()[0] for line in alice.lines()]
    assert sorted(ran) == sorted([*lost, *others])
    again = [job for job in jobs if job["attempt"] > 1]
    assert again, "slurmctld has forgotten none, so nothing was shown"
    assert {job["id"] for job in again} <= {*lost}


def test_a_slurmctld_that_begins_without_its_state_loses_no_job(
    alice: Person, slurm_cluster: DevCluster, scontrol: Callable[..., str]
) -> None:
    """Accounting then records jobs that slurmctld does not know as cancelled, without a user."""
    hold(scontrol, slurm_cluster)
    lost = [alice.submit() for _ in range(2)]
    names = ",".join(f"aitne-{job}-1" for job in lost)

    def accounted() -> bool:
        sacct = ["sacct", "-nPX", "--allusers", f"--name={names}", "--format=State"]
        done = subprocess.run(
            [*slurm_cluster.command_prefix, *sacct],
            env=dict(os.environ) | slurm_cluster.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.split() == ["PENDING"] * len(lost)

    eventually("accounting knows them", accounted)
    pid = faults.pid_of(slurm_cluster, "slurmctld")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    for state in (slurm_cluster.root / "state").glob("job_state*"):
        state.unlink()
    faults.restart_daemon(slurm_cluster, "slurmctld")
    let_go(scontrol, slurm_cluster)
    jobs = [alice.completed(job) for job in lost]
    assert [job["attempt"] for job in jobs] == [2, 2]
    assert sorted(line.split()[0] for line in alice.lines()) == sorted(lost)


@pytest.mark.long
def test_a_slurmctld_that_begins_without_its_state_has_lost_what_ran(
    alice: Person, slurm_platform: RunningPlatform, slurm_cluster: DevCluster
) -> None:
    """No person cancelled it, though accounting records it as cancelled."""
    waits = f'[ "$AITNE_ATTEMPT" -gt 1 ] || {{ touch {alice.folder}/$AITNE_JOB_ID; sleep 300; }}'
    lost, retried = alice.submit(waits), alice.submit(waits, retry={"max": 1})
    body = {"type": "session", "template": "jupyterlab", "resources": SMALL | {"memory": "512M"}}
    session = str(alice.line.post("/sessions", json=body).raise_for_status().json()["id"])
    for job in (lost, retried):
        eventually("it runs", (alice.folder / job).exists, 30)
    eventually("it is open", lambda: alice.state(session) == "READY", 60)
    pid = faults.pid_of(slurm_cluster, "slurmctld")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    for state in (slurm_cluster.root / "state").glob("*"):
        shutil.rmtree(state) if state.is_dir() else state.unlink()
    faults.restart_daemon(slurm_cluster, "slurmctld")
    assert alice.completed(retried, 240)["attempt"] == 2
    for job in (lost, session):
        eventually("it has ended", lambda j=job: alice.job(j)["ended_at"], 60)
        ended = alice.job(job)
        assert (ended["state"], ended["reason"]) == ("LOST", "lost"), ended
        assert "The scheduler lost its state when it restarted at" in ended["message"]
    assert [line.split()[0] for line in alice.lines()] == [retried]
    eventually(
        "health says so",
        lambda: metric(slurm_platform, 'aitne_part_state{part="scheduler",state="degraded"}') == 1,
        60,
    )
    assert (
        metric(slurm_platform, "aitne_scheduler_state_lost_timestamp_seconds") > time.time() - 600
    )


def test_jobs_wait_while_slurmctld_cannot_save_them(
    alice: Person, slurm_platform: RunningPlatform, slurm_cluster: DevCluster
) -> None:
    """Its StateSaveLocation is full, or belongs to another user."""
    alice.completed(alice.submit())
    state = slurm_cluster.root / "state"
    folders = [state, *(path for path in state.glob("hash.*") if path.is_dir())]
    modes = [folder.stat().st_mode for folder in folders]
    for folder in folders:
        folder.chmod(0o500)
    degraded = 'aitne_part_state{part="scheduler",state="degraded"}'
    try:
        jobs = [alice.submit() for _ in range(3)]

        def told() -> bool:
            found = [alice.job(job) for job in jobs]
            assert {job["state"] for job in found} <= {"PENDING_SUBMIT", "SUBMITTING"}, found
            return any("I/O error writing script" in (job["message"] or "") for job in found)

        eventually("they say why they wait", told)
        eventually("health says so", lambda: metric(slurm_platform, degraded) == 1, 60)
    finally:
        for folder, mode in zip(folders, modes, strict=True):
            folder.chmod(mode)
    for job in jobs:
        alice.completed(job)
    assert len(alice.lines()) == 4


def test_a_slurmctld_that_hangs_is_said_and_waited_for(
    alice: Person, slurm_platform: RunningPlatform, slurm_cluster: DevCluster
) -> None:
    alice.completed(alice.submit())
    pid = faults.pid_of(slurm_cluster, "slurmctld")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        jobs = [alice.submit() for _ in range(3)]
        eventually(
            "the platform says so", lambda: part(slurm_platform, "scheduler")["ok"] is False, 40
        )
        assert "has not answered since" in part(slurm_platform, "scheduler")["detail"]
        assert slurm_platform.ready(), "it takes jobs and keeps them"
        assert alice.line.get("/cluster/nodes").raise_for_status().json()["stale"] is True
        assert all(alice.job(job)["ended_at"] is None for job in jobs)
    finally:
        os.kill(pid, signal.SIGCONT)
    for job in jobs:
        alice.completed(job, 120)
    assert len(alice.lines()) == 4
    eventually("all is well", lambda: part(slurm_platform, "scheduler")["ok"], 30)


@pytest.mark.long
def test_a_slurmctld_that_is_down_is_waited_for(
    alice: Person, slurm_platform: RunningPlatform, slurm_cluster: DevCluster, outage_s: float
) -> None:
    running = alice.submit(f"sleep {outage_s / 2:.0f}")
    eventually("it runs", lambda: alice.state(running) == "RUNNING", 30)
    pid = faults.pid_of(slurm_cluster, "slurmctld")
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    back = time.monotonic() + outage_s
    try:
        jobs = [alice.submit() for _ in range(3)]
        cancelled = alice.submit()
        alice.line.post(f"/jobs/{cancelled}/cancel").raise_for_status()
        eventually(
            "the platform says so", lambda: part(slurm_platform, "scheduler")["ok"] is False, 40
        )
        assert {alice.state(job) for job in jobs} <= {"PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN"}
        eventually("the time is up", lambda: time.monotonic() > back, outage_s + 1)
    finally:
        faults.restart_daemon(slurm_cluster, "slurmctld")
    for job in (running, *jobs):
        alice.completed(job, 120)
    eventually("it is cancelled", lambda: alice.state(cancelled) == "CANCELLED")
    assert sorted(line.split()[0] for line in alice.lines()) == sorted([running, *jobs])


def test_a_slurmdbd_that_is_down_stops_nobody(alice: Person, slurm_cluster: DevCluster) -> None:
    pid = faults.pid_of(slurm_cluster, "slurmdbd")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    try:
        alice.completed(alice.submit())
    finally:
        faults.restart_daemon(slurm_cluster, "slurmdbd")
    alice.completed(alice.submit())
    assert len(alice.lines()) == 2


@pytest.mark.long
def test_a_slurmrestd_that_hangs_holds_up_only_what_it_was_given(
    alice: Person, slurm_cluster: DevCluster
) -> None:
    alice.completed(alice.submit())
    pid = faults.pid_of(slurm_cluster, "slurmrestd")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        given, cancelled = alice.submit(), alice.submit()
        for job in (given, cancelled):
            eventually("nobody answers", lambda j=job: alice.state(j) == "UNCERTAIN", 90, 0.2)
        alice.line.post(f"/jobs/{cancelled}/cancel").raise_for_status()
        eventually("it is cancelled", lambda: alice.state(cancelled) == "CANCELLED", 20)
        others = [alice.submit() for _ in range(3)]
        for job in others:
            alice.completed(job)
        assert alice.state(given) == "UNCERTAIN"
    finally:
        os.kill(pid, signal.SIGCONT)
    alice.completed(given, 120)
    assert len(alice.lines()) == 5
    assert cancelled not in {line.split()[0] for line in alice.lines()}


def test_a_slurmrestd_that_dies_while_jobs_are_submitted_is_done_without(
    alice: Person, slurm_cluster: DevCluster
) -> None:
    pid = faults.pid_of(slurm_cluster, "slurmrestd")
    assert pid is not None
    jobs = [alice.submit() for _ in range(10)]
    os.kill(pid, signal.SIGKILL)
    try:
        jobs += [alice.submit() for _ in range(10)]
        for job in jobs:
            alice.completed(
                job, 150
            )  # one whose answer it owed is looked for as long as it may turn up
    finally:
        faults.restart_daemon(slurm_cluster, "slurmrestd")
    alice.completed(alice.submit())
    ran = [line.split()[0] for line in alice.lines()]
    assert sorted(ran[:-1]) == sorted(jobs)


@pytest.mark.long
def test_a_node_that_dies_with_jobs_on_it(alice: Person, slurm_cluster: DevCluster) -> None:
    """One may be begun again: Slurm does so, thus the platform does not. The other says what happened."""
    wait = f'[ "$SLURM_RESTART_COUNT" ] || {{ touch {alice.folder}/$AITNE_JOB_ID; sleep 300; }}'
    retried = alice.submit(wait, retry={"max": 2, "on": ["node_failed"]})
    failed = alice.submit(wait, slurm={"requeue": False})
    for job in (retried, failed):
        eventually("it runs", (alice.folder / job).exists, 30)
    (node,) = eventually("its node is known", lambda: alice.job(retried)["nodes"])
    assert eventually("it is known", lambda: alice.job(failed)["nodes"]) == [node], "Slurm packs"
    faults.crash_node(slurm_cluster, node)
    try:
        # Slurm calls it dead after SlurmdTimeout and begins the job anew after cred_expire.
        ended = alice.completed(retried, 150)
        lost = alice.job(failed)
    finally:
        faults.restart_daemon(slurm_cluster, f"slurmd.{node}")
    assert ended["attempt"] == 1
    assert ended["nodes"] != [node]
    assert lost["state"] == "NODE_FAILED"
    assert node in lost["message"]
    assert [line.split()[0] for line in alice.lines()] == [retried]


@pytest.mark.long
def test_requeues_and_arrays_pass_the_fence(
    alice: Person, scontrol: Callable[..., str], slurm_cluster: DevCluster
) -> None:
    wait = (
        f'touch "{alice.folder}/$SLURM_ARRAY_TASK_ID-$SLURM_RESTART_COUNT"; '
        '[ "$SLURM_RESTART_COUNT" ] || sleep 120'
    )
    array = alice.submit(wait, array="0-3", retry={"max": 3, "on": ["node_failed"]})
    for task in range(4):
        eventually("it runs", (alice.folder / f"{task}-").exists)
    tasks = alice.line.get("/jobs", params={"array_job_id": array}).raise_for_status().json()
    name = next(job["scheduler_id"] for job in tasks["items"]).partition("_")[0]
    scontrol("requeue", name)
    job = alice.completed(array, 200)
    assert "4 completed" in job["message"]
    assert sorted(line.split()[1] for line in alice.lines()) == ["0", "1", "2", "3"]
    assert all((alice.folder / f"{task}-1").exists() for task in range(4))


def test_a_full_disk_makes_a_job_wait_and_no_other(bob: Person, alice: Person) -> None:
    bob.completed(bob.submit())
    folder = bob.home / ".aitne" / "jobs"
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,uid=bob,gid=bob,mode=0700", "tmpfs"]
    subprocess.run([*mount, str(folder)], check=True)
    try:
        with pytest.raises(OSError, match="No space"), (folder / "full").open("wb") as file:
            file.write(b"\0" * (2 << 20))
        job = bob.submit()

        def waits() -> bool:
            # Each further attempt is SUBMITTING for a moment, without a message.
            found = bob.job(job)
            assert found["state"] in ("PENDING_SUBMIT", "SUBMITTING"), found
            return "too little space is left" in (found["message"] or "")

        eventually("it says why it waits", waits)
        alice.completed(alice.submit())
        eventually("it still waits", waits)
        (folder / "full").unlink()
        bob.completed(job)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    assert len(bob.lines()) == 2
