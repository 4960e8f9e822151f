"""The days of a researcher, a project manager and an administrator in Chromium, on a Slurm cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.browser import marks, walk
from tests.support.platform import AITNE, RunningPlatform, on_cluster, run_platform
from tests.support.slurm import run_as

pytestmark = marks(timeout_s=1_200)


@pytest.fixture
def slurm_platform(
    tmp_path_factory: pytest.TempPathFactory, slurm_cluster: DevCluster
) -> Iterator[RunningPlatform]:
    """A platform of the day's own, and no node that stays drained however the day ends."""
    try:
        with run_platform(
            on_cluster(tmp_path_factory.mktemp("platform"), slurm_cluster)
        ) as running:
            yield running
    finally:
        _resume_all(slurm_cluster)


def _resume_all(cluster: DevCluster) -> None:
    operator = cluster.operator
    drained = run_as(cluster, operator, "sinfo", "-h", "-N", "-t", "drain", "-o", "%N")
    for node in set(drained.split()):
        run_as(cluster, operator, "scontrol", "update", f"nodename={node}", "state=resume")


@pytest.fixture
def commands(slurm_platform: RunningPlatform, slurm_cluster: DevCluster) -> str:
    """The command lines of an administrator for the walk, as JSON."""
    own = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    known = (f"{name}={slurm_platform.env[name]}" for name in own)
    slurm = (f"{name}={value}" for name, value in slurm_cluster.environment.items())
    return json.dumps(
        {
            "aitne": ["env", *known, str(AITNE)],
            "sinfo": [*slurm_cluster.command_prefix, "env", *slurm, "sinfo"],
        }
    )


@pytest.mark.parametrize(
    "day",
    [
        pytest.param("researcher", marks=pytest.mark.long(third=1)),
        pytest.param("leader", marks=pytest.mark.long(third=2)),
        pytest.param("administrator", marks=pytest.mark.long(third=3)),
    ],
)
def test_a_day(
    day: str, slurm_platform: RunningPlatform, commands: str, chromium: str, tmp_path: Path
) -> None:
    for user in ("alice", "bob"):
        slurm_platform.token_of(user)
    walk(f"{day}.mjs", slurm_platform, slurm_platform.token, chromium, tmp_path, commands)
