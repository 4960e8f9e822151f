"""What holds for every test."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.support.platform import platform, slurm_platform
from tests.support.slurm import slurm_cluster, slurm_clusters

__all__ = ["platform", "slurm_cluster", "slurm_clusters", "slurm_platform"]

# A busy machine is slow at times; how long an example takes is not what these tests are about.
settings.register_profile("aitne", deadline=None)
settings.load_profile("aitne")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--kill-rounds 10`` is the whole proof of the fault tests; once is what every run does."""
    parser.addoption("--kill-rounds", type=int, default=1, help="rounds of kill -9 in tests/fault")
    parser.addoption("--outage-s", type=float, default=20, help="seconds that Slurm is away")
