"""The shipped images, really built and offered, on a platform of this machine and on one on Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aitne.client import Client
from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.dockerd import Dockerd
from tests.support.platform import RunningPlatform, run_platform
from tests.support.stock import make_stock, offer_stock, stock_dockerd, stock_on

__all__ = ["stock_dockerd"]


@pytest.fixture(scope="module")
def here(
    tmp_path_factory: pytest.TempPathFactory, stock_dockerd: Dockerd
) -> Iterator[RunningPlatform]:
    """A platform on one machine with Apptainer and Docker, with both images for both."""
    images = make_stock(stock_dockerd)
    config = [
        "[containers]",
        f'docker_url = "{stock_dockerd.url}"',
        f'images_dir = "{images}"',
    ]
    root = tmp_path_factory.mktemp("platform")
    with run_platform(RunningPlatform(root, "\n".join(config))) as running:
        offer_stock(running, images)
        yield running


@pytest.fixture(scope="module")
def on_slurm(
    tmp_path_factory: pytest.TempPathFactory, slurm_cluster: DevCluster
) -> Iterator[RunningPlatform]:
    """A real Slurm whose nodes have Apptainer."""
    with stock_on(slurm_cluster, tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.fixture(scope="module")
def owner(here: RunningPlatform) -> Client:
    """A client of the user who started the platform."""
    return Client(here.url, here.token)


@pytest.fixture(scope="module")
def alice(on_slurm: RunningPlatform) -> Client:
    """A user of the cluster."""
    return Client(on_slurm.url, on_slurm.token_of("alice"))
