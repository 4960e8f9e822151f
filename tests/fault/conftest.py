from __future__ import annotations

from collections.abc import Iterator

import pytest

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.fault.storm import config
from tests.support.platform import RunningPlatform, run_platform


@pytest.fixture
def kill_rounds(request: pytest.FixtureRequest) -> int:
    """The number of times that each process is killed; the complete test takes `--kill-rounds 10`."""
    rounds: int = request.config.getoption("--kill-rounds")
    return rounds


@pytest.fixture
def outage_s(request: pytest.FixtureRequest) -> float:
    """The length of slurmctld's outage in seconds; the complete test takes `--outage-s 60`."""
    seconds: float = request.config.getoption("--outage-s")
    return seconds


@pytest.fixture(scope="module")
def slurm_platform(
    slurm_cluster: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningPlatform]:
    """A platform on the tests' Slurm, for the tests of one module."""
    root = tmp_path_factory.mktemp("on-slurm")
    with run_platform(RunningPlatform(root, config(slurm_cluster))) as running:
        yield running
