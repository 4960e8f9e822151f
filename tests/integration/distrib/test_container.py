"""Ranks in a shipped image: one container on each node, started by the image's own Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.integration.distrib.conftest import log_of, two_by_two
from tests.support import realtime
from tests.support.platform import RunningPlatform
from tests.support.stock import stock_on

pytestmark = [
    pytest.mark.long(third=3),
    pytest.mark.platform,
    pytest.mark.timeout(1_500),
    realtime.PLATFORM,
]

SAY = (
    'echo "$RANK $LOCAL_RANK $WORLD_SIZE $SLURMD_NODENAME $(readlink /proc/self/ns/ipc) $(id -un)";'
    " test -w $AITNE_RUN_DIR && test -d $AITNE_CHECKPOINTS && ! touch /opt/aitne/launcher/x"
)


@pytest.fixture(scope="module")
def with_images(
    tmp_path_factory: pytest.TempPathFactory, slurm_cluster: DevCluster
) -> Iterator[RunningPlatform]:
    """A real Slurm whose nodes have Apptainer."""
    with stock_on(slurm_cluster, tmp_path_factory.mktemp("platform")) as running:
        yield running


def test_ranks_of_a_node_share_its_one_container(with_images: RunningPlatform) -> None:
    alice = Client(with_images.url, with_images.token_of("alice"))
    job = alice.jobs.create(two_by_two(SAY, image="base"))
    ended = alice.jobs.wait(job.id, timeout_s=240)
    log = log_of(alice, job.id)
    assert ended.state == "COMPLETED", f"{ended.message}\n{log}"
    lines = [line.split() for line in log.splitlines() if "ipc:" in line]
    assert sorted(line[0] for line in lines) == ["0", "1", "2", "3"]
    assert {line[5] for line in lines} == {"alice"}
    spaces = {(line[3], line[4]) for line in lines}
    assert len(spaces) == 2, "of each node the ranks are in one, so that they share memory"


def test_a_killed_rank_in_a_container_is_named(with_images: RunningPlatform) -> None:
    alice = Client(with_images.url, with_images.token_of("alice"))
    job = alice.jobs.create(two_by_two("[ $RANK != 2 ] || kill -9 $$; sleep 120", image="base"))
    ended = alice.jobs.wait(job.id, timeout_s=240)
    assert (ended.state, ended.exit_code) == ("FAILED", 137), log_of(alice, job.id)
    assert ended.message == f"Rank 2 on node {ended.nodes[1]} was ended by signal 9 (SIGKILL)."
