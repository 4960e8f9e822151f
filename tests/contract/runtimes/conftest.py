"""Benches of all runtimes; Apptainer is tested as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.bootstrap.adapters import RUNTIMES
from aitne.core.models.image import ImageUse
from aitne.core.settings import Settings
from aitne.core.storage.storage_and_container_settings import ContainerSettings
from tests.contract.runtimes.bench import USER, Bench, make_home, write_software
from tests.support.dockerd import Dockerd, dockerd
from tests.support.images import build_sif, need_apptainer
from tests.support.requirements import lacking

__all__ = ["dockerd"]

CONTAINED = ("apptainer", "apptainer as a user", "docker")


@pytest.fixture(scope="session")
def software() -> Iterator[Path]:
    """The agent in a folder that every account reads."""
    folder = Path(tempfile.mkdtemp(prefix="aitne-software-", dir="/tmp"))
    yield write_software(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def sif() -> Iterator[Path]:
    """An image file that every account reads."""
    need_apptainer()
    folder = Path(tempfile.mkdtemp(prefix="aitne-image-", dir="/tmp"))
    folder.chmod(0o755)
    yield build_sif(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def docker_image(dockerd: Dockerd) -> str:
    """The same in Docker's store."""
    return dockerd.skeleton()


def _opened(request: pytest.FixtureRequest, software: Path) -> Iterator[Bench]:
    kind, _, who = request.param.partition(" ")
    user = USER if who else None
    if user and os.geteuid() != 0:
        lacking("apptainer", "only root can start a program as another user")
    home = make_home(user)
    settings = Settings(data_dir=home)
    image: ImageUse | None = None
    daemon: Dockerd | None = None
    if kind == "docker":
        daemon = request.getfixturevalue("dockerd")
        image = ImageUse(reference="skeleton:1", digest=request.getfixturevalue("docker_image"))
        containers = ContainerSettings(docker_url=daemon.url)
        settings = settings.model_copy(update={"containers": containers})
    elif kind == "apptainer":
        path = request.getfixturevalue("sif")
        image = ImageUse(reference="skeleton:1", digest="sha256:" + "0" * 64, path=str(path))
    runtime = RUNTIMES.all()[kind](settings, None)
    bench = Bench(request.param, runtime, image, user, home, software, daemon)
    yield bench
    bench.close()


@pytest.fixture(params=["bare", *CONTAINED])
def bench(request: pytest.FixtureRequest, software: Path) -> Iterator[Bench]:
    """A bench with each of the runtimes."""
    yield from _opened(request, software)


@pytest.fixture(params=CONTAINED)
def box(request: pytest.FixtureRequest, software: Path) -> Iterator[Bench]:
    """A bench with each of the runtimes that use images."""
    yield from _opened(request, software)


@pytest.fixture(params=["apptainer", "apptainer as a user"])
def apptainer(request: pytest.FixtureRequest, software: Path) -> Iterator[Bench]:
    """Benches with Apptainer, started by root and by a user."""
    yield from _opened(request, software)


@pytest.fixture(params=["docker"])
def docker_bench(request: pytest.FixtureRequest, software: Path) -> Iterator[Bench]:
    """A bench with Docker."""
    yield from _opened(request, software)
