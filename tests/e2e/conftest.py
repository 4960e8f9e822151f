"""Platforms that may be given the shipped images, and the data that is read there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest

from aitne.core.platform.dev_cluster_record import DevCluster
from tests.support.browser import chromium as chromium
from tests.support.platform import RunningPlatform, run_platform
from tests.support.stock import offer_stock, shared_stock, stock_on

DATASET = "digits:1"


@pytest.fixture(scope="session", autouse=True)
def _ended_like_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that the fixtures stop their platforms, which are no child processes."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def with_images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with both images, and a dataset of the user who started it."""
    images = shared_stock()
    root = tmp_path_factory.mktemp("platform")
    config = f'[containers]\nimages_dir = "{images}"'
    with run_platform(RunningPlatform(root, config, domain="localhost")) as running:
        offer_stock(running, images)
        _add(running, running.token, running.home / "digits")
        yield running


@pytest.fixture(scope="module")
def slurm_with_images(
    tmp_path_factory: pytest.TempPathFactory, slurm_cluster: DevCluster
) -> Iterator[RunningPlatform]:
    """A platform on Slurm with both images, and a private dataset of alice's."""
    alice = getpwnam("alice")
    folder = Path(alice.pw_dir, "digits-of-the-portal")
    shutil.rmtree(folder, ignore_errors=True)
    with stock_on(slurm_cluster, tmp_path_factory.mktemp("platform")) as running:
        try:
            _add(running, running.token_of("alice"), folder, alice.pw_uid, alice.pw_gid)
            yield running
        finally:
            shutil.rmtree(folder)


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
