"""Training on two nodes: what kills a rank or preempts the job costs time, and changes no result."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aitne.client import Client
from aitne.core.errors import NotFound
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.integration.distrib.conftest import log_of, two_by_two
from tests.integration.distrib.test_slurm import ranks_of
from tests.support import realtime
from tests.support.slurm import run_as
from tests.support.training import shared_environment
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(500),
    realtime.PLATFORM,
]

until = partial(eventually, within_s=120, poll_s=0.2)
PROGRAM = Path(__file__).with_name("train.py")
HOROVOD = Path(__file__).with_name("horovod_script.py")
PAUSE_S = 0.1
PARAMETERS = 8 * 16 + 16 + 16 + 1
LOSS = re.compile(r"^loss ([0-9.]+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that every account reads: the program, and an environment with torch in it."""
    with shared_environment() as folder:
        shutil.copy(PROGRAM, folder / PROGRAM.name)
        yield folder


def training(shared: Path, **fields: Any) -> dict[str, Any]:
    return two_by_two(
        f"python {shared}/{PROGRAM.name} {PAUSE_S}",
        environment={"venv": str(shared / "venv")},
        env={"OMP_NUM_THREADS": "1"},
        resources={"nodes": 2, "cpu": 1, "memory": "900M"},
        **fields,
    )


def interrupted(
    client: Client, file: dict[str, Any], disturb: Callable[[str], None]
) -> tuple[str, str]:
    """Submit, let it train for some steps, disturb it, wait: the loss at the end, and the log."""
    job = client.jobs.create(file)
    until("some steps", lambda: "step 15\n" in _going(client, job.id))
    disturb(job.id)
    ended = client.jobs.wait(job.id, timeout_s=240)
    log = log_of(client, job.id)
    assert ended.state == "COMPLETED", f"{ended.message}\n{log}"
    found = LOSS.search(log)
    assert found is not None, log
    return found[1], log


def _going(client: Client, job_id: str) -> str:
    """Return the log of a job; fail if the job has ended without a loss."""
    log = log_of(client, job_id)
    found = client.jobs.get(job_id)
    assert not found.ended or "loss" in log, f"{found.state}: {found.message}\n{log}"
    return log


def kill_a_rank(job_id: str) -> None:
    """Kill rank 3, which is on the second node."""
    for pid in ranks_of(job_id):
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if b"RANK=3" in environ:
            os.kill(pid, signal.SIGKILL)
            return
    raise AssertionError("rank 3 does not run")


def undisturbed(client: Client, shared: Path) -> str:
    return interrupted(client, training(shared), lambda _: None)[0]


@pytest.mark.long(third=1)
def test_on_pretended_nodes_a_killed_rank_and_a_preemption_change_nothing(
    owner: Client, shared: Path
) -> None:
    loss = undisturbed(owner, shared)
    failed = training(shared, retry={"max": 1, "on": ["failed"]})
    again, log = interrupted(owner, failed, kill_a_rank)
    assert (again, "resumed at" in log) == (loss, True)

    def preempt(job_id: str) -> None:
        for pid in ranks_of(job_id):
            os.kill(pid, signal.SIGUSR1)

    # A rank that ends so on a signal from outside the scheduler has failed for the platform.
    again, log = interrupted(owner, failed, preempt)
    assert (again, "resumed at" in log) == (loss, True)


@pytest.mark.long(third=3)
def test_on_slurm_a_killed_rank_and_a_preemption_change_nothing(
    slurm_cluster: DevCluster, alice: Client, shared: Path
) -> None:
    loss = undisturbed(alice, shared)
    failed = training(shared, retry={"max": 1, "on": ["failed"]})
    again, log = interrupted(alice, failed, kill_a_rank)
    assert (again, "resumed at" in log) == (loss, True)

    def preempt(job_id: str) -> None:
        number = str(alice.jobs.get(job_id).scheduler_id)
        run_as(slurm_cluster, "alice", "scancel", "--batch", "--signal=USR1", number)

    again, log = interrupted(alice, training(shared, retry={"max": 1}), preempt)
    assert (again, "resumed at" in log) == (loss, True)


@pytest.mark.long(third=2)
def test_the_profile_grows_while_it_trains(owner: Client, shared: Path) -> None:
    small = {"ranks_per_node": 2, "compress": "bf16"}
    job = owner.jobs.create(training(shared, distributed=small))
    seen = until("a profile with steps", lambda: _steps(owner, job.id))
    assert not owner.jobs.get(job.id).ended, "it came while the job ran"
    owner.jobs.wait(job.id, timeout_s=240)
    profile = owner.jobs.profile(job.id)
    assert (profile["size"], profile["final"]) == (4, True)
    assert profile["steps"] >= seen
    assert {row["rank"] for row in profile["ranks"]} == {0, 1, 2, 3}
    assert {row["node"] for row in profile["ranks"]} == {0, 1}
    sent = sum(row["bytes"] for row in profile["table"] if row["op"] == "allreduce")
    whole = 4 * PARAMETERS * profile["steps"]
    assert 0.4 * whole < sent < 0.7 * whole, "gradients travel as bf16, as the job file says"


def _steps(client: Client, job_id: str) -> int:
    try:
        return int(client.jobs.profile(job_id)["steps"])
    except NotFound:
        return 0


@pytest.mark.long(third=2)
@pytest.mark.parametrize("on", ["pretended nodes", "slurm"])
def test_script_for_horovod_runs_unmodified(request: pytest.FixtureRequest, on: str) -> None:
    """The user's Python has torch, and neither Horovod nor the platform's runtime."""
    client: Client = request.getfixturevalue("alice" if on == "slurm" else "owner")
    with shared_environment(runtime=False) as folder:
        shutil.copy(HOROVOD, folder / HOROVOD.name)
        job = client.jobs.create(
            two_by_two(
                f"python {folder}/{HOROVOD.name}",
                environment={"venv": str(folder / "venv")},
                env={"OMP_NUM_THREADS": "1"},
                resources={"nodes": 2, "cpu": 1, "memory": "900M"},
                distributed={"ranks_per_node": 2, "backend": "gloo", "horovod": True},
            )
        )
        ended = client.jobs.wait(job.id, timeout_s=240)
    log = log_of(client, job.id)
    assert ended.state == "COMPLETED", f"{ended.message}\n{log}"
    assert "sum of 4 ranks: 6.0\nequal weights: True\n" in log
