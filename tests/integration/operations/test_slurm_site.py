"""Doctor and acceptance test of a site with a real Slurm, as one of its users."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest

from tests.support import realtime
from tests.support.platform import RunningPlatform

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(600),
    realtime.PLATFORM,
    pytest.mark.long(third=3),
]


def test_doctor_sees_each_node_by_a_job(slurm_platform: RunningPlatform) -> None:
    done = slurm_platform.aitne("admin", "doctor", "--job-as", "alice", "--json", timeout_s=200)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    seen = ("test-job", "node-folder", "node-clock", "node-portal", "portal-node")
    for name in (*seen, "slurm-accounting", "slurm-clock", "broker-protocol", "node-software"):
        assert checks[name]["state"] == "ok", checks[name]
    # The development cluster has no control groups, and its GPUs are simulated.
    assert "ConstrainRAMSpace" in checks["slurm-settings"]["message"]
    assert checks["node-gpus"]["state"] == "failed"
    assert "NVML" in checks["node-gpus"]["message"]


@pytest.fixture
def dataset(slurm_platform: RunningPlatform) -> Iterator[None]:
    """A dataset of alice in her home."""
    alice = getpwnam("alice")
    folder = Path(alice.pw_dir, "words")
    folder.mkdir()
    (folder / "one.txt").write_text("of a dataset\n")
    for path in (folder, folder / "one.txt"):
        os.chown(path, alice.pw_uid, alice.pw_gid)
    added = slurm_platform.aitne(
        *("dataset", "add", "words", str(folder), "--version", "1.0", "--yes"),
        env={"AITNE_TOKEN": slurm_platform.token_of("alice"), "AITNE_URL": slurm_platform.url},
    )
    assert added.returncode == 0, added.stderr
    yield
    shutil.rmtree(folder)


@pytest.mark.usefixtures("dataset")
def test_acceptance_passes_as_a_user_of_slurm(
    slurm_platform: RunningPlatform, tmp_path: Path
) -> None:
    words = ("admin", "accept", "--as", "alice", "--output", str(tmp_path), "--json")
    done = slurm_platform.aitne(*words, timeout_s=500)
    report = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert [check for check in report["checks"] if check["state"] == "failed"] == []
    assert done.returncode == 0
    for name in (
        "batch",
        "log-follow",
        "array",
        "mpi",
        "ranks",
        "session",
        "dataset",
        "cancel",
        "agent-killed",
    ):
        assert states[name] == "ok", report
