"""The storm in its small form; ``python -m tests.fault.storm`` runs the large one."""

from __future__ import annotations

import sys

import pytest

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.fault.storm import Storm
from tests.support import realtime
from tests.support.platform import RunningPlatform

pytestmark = [
    pytest.mark.platform,
    pytest.mark.long,
    pytest.mark.timeout(1_000),
    realtime.PLATFORM,
]


def test_storm(slurm_cluster: DevCluster, slurm_platform: RunningPlatform) -> None:
    storm = Storm(
        slurm_platform,
        slurm_cluster,
        jobs=500,
        arrays=5,
        kills=8,
        hangs=0,
        slurmctld_kills=0,
        seed=20_260_102,
        say=sys.stdout.write,
    )
    # Each kill of the controller may begin a search for uncertain submissions anew, which takes a minute.
    result = storm.run(within_s=900)
    assert result.ok, result.summary()
