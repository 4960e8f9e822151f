"""A training on several nodes in a real Chromium, as a person starts and watches it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from pwd import getpwnam

import pytest

from tests.e2e.conftest import walk
from tests.support import realtime
from tests.support.platform import RunningPlatform, environments_or_skip
from tests.support.requirements import need_torch
from tests.support.training import shared_environment

pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.timeout(500),
    realtime.BROWSER,
]

PROGRAM = Path(__file__).with_name("train.py")


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """This machine's own scheduler, which pretends to have two nodes."""
    need_torch()
    environments_or_skip()
    running = RunningPlatform(tmp_path_factory.mktemp("platform"), "[local]\nnodes = 2")
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.mark.long(third=2)
def test_a_person_watches_what_ranks_say_to_each_other(
    two_nodes: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    folder = two_nodes.home / tmp_path.name
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    walk(
        *("distributed.mjs", two_nodes, two_nodes.token, chromium, tmp_path),
        *(str(folder), sys.prefix),
    )


@pytest.mark.long(third=2)
def test_distributed_training_runs_on_slurm_as_the_user(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = getpwnam("alice")
    folder = Path(alice.pw_dir, "training-of-the-portal")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    for path in (folder, folder / PROGRAM.name):
        os.chown(path, alice.pw_uid, alice.pw_gid)
    token = slurm_platform.token_of("alice")
    try:
        with shared_environment() as shared:
            venv = str(shared / "venv")
            walk("distributed.mjs", slurm_platform, token, chromium, tmp_path, str(folder), venv)
    finally:
        shutil.rmtree(folder)
