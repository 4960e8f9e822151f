"""Platforms that may be given the shipped images, and the data that is read there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest

from aitne.core.platform.dev_cluster import DevCluster
from tests.support.browser import ROOT as ROOT
from tests.support.browser import chromium as chromium
from tests.support.browser import show as show
from tests.support.browser import walk as walk
from tests.support.platform import RunningPlatform, environments_or_skip, on_cluster
from tests.support.stock import offer_stock, shared_folder, shared_stock

DATASET = "digits:1"


@pytest.fixture(scope="session", autouse=True)
def _ended_like_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the fixtures stop their platforms, which are no child processes."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with this machine's local scheduler and a domain for each user."""
    environments_or_skip()
    root = tmp_path_factory.mktemp("platform")
    running = RunningPlatform(root, _containers(), domain="localhost")
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def slurm_platform(
    tmp_path_factory: pytest.TempPathFactory, slurm_cluster: DevCluster
) -> Iterator[RunningPlatform]:
    """A platform on a Slurm cluster of its own."""
    environments_or_skip()
    running = on_cluster(tmp_path_factory.mktemp("platform"), slurm_cluster, _containers())
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def with_images(platform: RunningPlatform) -> RunningPlatform:
    """``platform`` with both images, and a dataset of the user who started it."""
    offer_stock(platform, shared_stock())
    _add(platform, platform.token, platform.home / "digits")
    return platform


@pytest.fixture(scope="module")
def slurm_with_images(slurm_platform: RunningPlatform) -> Iterator[RunningPlatform]:
    """``slurm_platform`` with both images, and a private dataset of alice's."""
    offer_stock(slurm_platform, shared_stock())
    alice = getpwnam("alice")
    folder = Path(alice.pw_dir, "digits-of-the-portal")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _add(slurm_platform, slurm_platform.token_of("alice"), folder, alice.pw_uid, alice.pw_gid)
        yield slurm_platform
    finally:
        shutil.rmtree(folder)


def _containers() -> str:
    """Return the setting of the images folder, which only tests with images fill."""
    return f'[containers]\nimages_dir = "{shared_folder()}"'


def _add(platform: RunningPlatform, token: str, folder: Path, uid: int = -1, gid: int = -1) -> None:
    folder.mkdir(mode=0o700)
    (folder / "one").write_text("1\n")
    for path in (folder, folder / "one"):
        os.chown(path, uid, gid)
    name, _, version = DATASET.partition(":")
    done = platform.aitne(
        *("dataset", "add", name, str(folder), "--version", version, "--yes"),
        env={"AITNE_TOKEN": token, "AITNE_URL": platform.url},
    )
    assert done.returncode == 0, done.stderr
