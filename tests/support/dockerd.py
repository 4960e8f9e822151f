"""A Docker daemon for the tests, with their images and containers alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from tests.support.images import skeleton_archive
from tests.support.requirements import lacking
from tests.support.waiting import eventually

# No networks of its own: the machine's rules and addresses stay as they are.
_FLAGS = ("--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false")
_START_S, _STOP_S = 30.0, 30.0


class Dockerd:
    """A running daemon. ``client`` is connected to it."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self.url = f"unix://{folder}/docker.sock"
        self.log = folder / "log"
        self._folder = folder
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [
                    "dockerd",
                    "-H",
                    self.url,
                    f"--data-root={data or folder / 'data'}",
                    f"--exec-root={folder}/exec",
                    f"--pidfile={folder}/pid",
                    *_FLAGS,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        eventually("the Docker daemon answers or ends", self._answers_or_ended, _START_S)
        self.client: docker.DockerClient | None = None
        if self._process.poll() is None:
            self.client = docker.DockerClient(base_url=self.url)

    def _answers_or_ended(self) -> bool:
        if self._process.poll() is not None:
            return True
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._folder / "docker.sock")) == 0

    def skeleton(self) -> str:
        """Import the image of ``tests.support.images``; return its id in the daemon's store."""
        assert self.client is not None
        with tempfile.TemporaryDirectory() as folder:
            archive = skeleton_archive(Path(folder, "skeleton"))
        self.client.api.import_image_from_data(archive, repository="skeleton", tag="1")
        return str(self.client.images.get("skeleton:1").id)

    def containers(self) -> list[str]:
        """Return the names of all containers, running or not."""
        assert self.client is not None
        return [found.name for found in self.client.containers.list(all=True, ignore_removed=True)]

    def stop(self) -> None:
        """End it and all that runs in it."""
        if self.client is not None:
            self.client.close()
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # It leaves its own network namespace mounted.
        for line in Path("/proc/mounts").read_text().splitlines():
            place = line.split()[1]
            if place.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def running(data: Path | None = None) -> Iterator[Dockerd]:
    """Run a Docker daemon during the block, or skip the test; with ``data`` its images are kept."""
    if shutil.which("dockerd") is None:
        lacking("docker", "Docker is not installed: apt-get install docker.io")
    if os.geteuid() != 0:
        lacking("docker", "only root can start a Docker daemon")
    # A socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="aitne-dockerd-"))
    found = Dockerd(folder, data)
    try:
        if found.client is None:
            lacking("docker", f"dockerd does not start here: {found.log.read_text()[-500:]}")
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def dockerd() -> Iterator[Dockerd]:
    """A Docker daemon for all tests of a pytest process."""
    with running() as found:
        yield found
