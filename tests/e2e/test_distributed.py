"""A training on several nodes in Chromium, as a user starts and watches it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest

from aitne.client import Client
from tests.support.browser import assert_portal_shows_order, marks, walk
from tests.support.platform import RunningPlatform, on_interleaved_nodes, run_platform
from tests.support.requirements import need_package
from tests.support.training import shared_environment
from tests.support.waiting import eventually

pytestmark = marks(timeout_s=500)

PROGRAM = Path(__file__).with_name("train.py")


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with four nodes on this machine, whose names alternate between two leaf switches."""
    need_package("torch")
    with run_platform(on_interleaved_nodes(tmp_path_factory.mktemp("platform"))) as running:
        yield running


@pytest.mark.long(third=2)
def test_a_person_watches_what_ranks_say_to_each_other(
    four_nodes: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    folder = four_nodes.home / tmp_path.name
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    walk(
        *("distributed.mjs", four_nodes, four_nodes.token, chromium, tmp_path),
        *(str(folder), sys.prefix),
    )


@pytest.mark.long(third=2)
def test_portal_shows_the_order_of_ranks(
    four_nodes: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    owner = Client(four_nodes.url, four_nodes.token)
    eventually("the topology is read", lambda: owner.nodes.topology()["switches"] != [])
    job = owner.jobs.create(
        {
            "commands": ["echo rank $RANK $SLURMD_NODENAME"],
            "resources": {"nodes": 4, "cpu": 1, "memory": "200M"},
            "distributed": {"ranks_per_node": 1},
        }
    )
    assert owner.jobs.wait(job.id, timeout_s=60).state == "COMPLETED"
    log = b"".join(owner.jobs.logs(job.id)).decode()
    said = sorted(line for line in log.splitlines() if line.startswith("rank "))
    order = ["node01", "node03", "node02", "node04"]
    assert said == [f"rank {rank} {node}" for rank, node in enumerate(order)]
    assert owner.jobs.placement(job.id)["order"] == order
    assert_portal_shows_order(four_nodes, four_nodes.token, job.id, chromium, tmp_path)


@pytest.mark.long(third=2)
def test_distributed_training_runs_on_slurm_as_the_user(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = getpwnam("alice")
    folder = Path(alice.pw_dir, "training-of-the-portal")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    for path in (folder, folder / PROGRAM.name):
        os.chown(path, alice.pw_uid, alice.pw_gid)
    token = slurm_platform.token_of("alice")
    try:
        with shared_environment() as shared:
            venv = str(shared / "venv")
            walk("distributed.mjs", slurm_platform, token, chromium, tmp_path, str(folder), venv)
    finally:
        shutil.rmtree(folder)
