"""A platform that is installed and started in a network without internet, by the commands of the handbook."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne import __version__
from tests.support import realtime
from tests.support.ports import reserve_ports
from tests.support.releases import ROOT, build_wheel, install_wheel
from tests.support.slurm import root_or_skip

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.platform,
    pytest.mark.timeout(2_400),
    realtime.PLATFORM,
]


def commands(heading: str) -> list[list[str]]:
    """Return the commands in the console blocks below a heading of the handbook."""
    text = (ROOT / "docs" / "handbook" / "upgrade.md").read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    return [[line.removeprefix("$ ") for line in block.splitlines()] for block in blocks]


class Offline:
    """A network namespace with a loopback interface alone. Needs root."""

    def __init__(self, folder: Path) -> None:
        self._name = f"offline{os.getpid()}"
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()

    def __enter__(self) -> Offline:
        subprocess.run(["ip", "netns", "add", self._name], check=True)
        subprocess.run(["ip", "-netns", self._name, "link", "set", "lo", "up"], check=True)
        return self

    def __exit__(self, *error: object) -> None:
        subprocess.run(["ip", "netns", "delete", self._name], check=False)

    def run(self, line: str) -> str:
        """Run a command line that must succeed; its output and messages."""
        done = subprocess.run(
            ["ip", "netns", "exec", self._name, "sh", "-c", line],
            cwd=self.folder,
            env={
                "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin",
                "HOME": str(self.home),
                "AITNE_TRUSTED_USERS": "true",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1_200,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[Offline]:
    root_or_skip()
    with Offline(tmp_path) as namespace:
        yield namespace


def test_platform_is_installed_and_started_without_internet(
    offline: Offline, tmp_path: Path
) -> None:
    wheel = build_wheel(tmp_path / "wheel")
    program = install_wheel(tmp_path / "online", wheel)
    pack, install = commands("Install without internet")
    (packing,) = pack
    argv = [*packing.replace("aitne ", f"{program} ", 1).split(), "--wheel", str(wheel)]
    subprocess.run(argv, cwd=tmp_path, check=True, timeout=1_200)
    size = (tmp_path / "aitne-bundle.tar").stat().st_size
    log.info("The bundle has %d bytes.", size)

    port = reserve_ports(5)
    reach = "import socket; socket.create_connection(('192.0.2.1', 443), timeout=5)"
    with pytest.raises(AssertionError, match="Network is unreachable"):
        offline.run(f'python3 -c "{reach}"')
    said = ""
    for line in install:
        line = line.replace("/opt/aitne", str(tmp_path / "opt")).replace("0.1.0", __version__)
        said = offline.run(f"{line} --port {port}" if " up " in line else line)
    assert "Packages come from the bundle" in said
    try:
        get = f"urllib.request.urlopen('http://127.0.0.1:{port}/').read().decode()"
        page = offline.run(f'{tmp_path}/opt/bin/python -c "import urllib.request; print({get})"')
        assert "<title>" in page
        started = offline.run(f"{tmp_path}/opt/bin/aitne session start jupyterlab --yes --wait")
        assert "http" in started
    finally:
        offline.run(f"{tmp_path}/opt/bin/aitne down")
