"""``aitne admin setup`` on a running Slurm cluster: the platform comes up beside jobs that run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.machines.platform import MachinesPlatform
from tests.machines.slurm import SlurmCluster
from tests.support import realtime

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(1200),
    realtime.MACHINES,
]


@dataclass(frozen=True)
class Adopted:
    """A platform that was set up, possibly just now, while a job of bob's ran."""

    platform: MachinesPlatform
    job: int


@pytest.fixture(scope="module")
def adopted(cluster: SlurmCluster, request: pytest.FixtureRequest) -> Iterator[Adopted]:
    script = "#!/bin/sh\nwhile sleep 1; do echo $$; done\n"
    job = cluster.sbatch("bob", script, "--mem=100M", "--output=/home/bob/beside.log")
    yield Adopted(request.getfixturevalue("platform"), job)
    cluster.portal.run(["scancel", str(job)])


def test_setup_leaves_running_jobs_undisturbed_and_second_run_changes_nothing(
    adopted: Adopted,
) -> None:
    cluster, platform = adopted.platform.cluster, adopted.platform

    document = platform.setup("--yes")

    assert {file["state"] for file in document["files"]} == {"unchanged"}
    assert not document["written"]
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert states["slurm"] == states["slurm.operator"] == states["slurm.rest"] == "ok", document
    assert states["shared.nodes"] == "ok", document
    assert states["slurm.PrologFlags"] == "warning"

    def lines() -> list[str]:
        return cluster.portal.run(["cat", "/home/bob/beside.log"]).stdout.split()

    before = lines()
    cluster.wait(lambda: len(lines()) > len(before), 60, "the job of bob continues")
    assert len(set(lines())) == 1  # the same process from the beginning
    queued = cluster.portal.run(["squeue", "-h", "-j", str(adopted.job), "-o", "%T %r"]).stdout
    assert queued.startswith("RUNNING")
    restarts = ["scontrol", "show", "job", str(adopted.job)]
    assert "Restarts=0" in cluster.portal.run(restarts).stdout
