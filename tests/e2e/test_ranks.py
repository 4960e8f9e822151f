"""Ranks of a notebook in a real Chromium: on this machine's scheduler with two nodes, and on a real Slurm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform, run_platform
from tests.support.requirements import need_package
from tests.support.training import shared_environment

pytestmark = marks(timeout_s=900)
START = "4 --nodes 2 --memory 700M --idle 10m --python"


@pytest.fixture
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with two nodes on this machine."""
    need_package("torch")
    root = tmp_path_factory.mktemp("platform")
    config = "[local]\nnodes = 2\ncpus = 8"
    with run_platform(RunningPlatform(root, config, domain="localhost")) as running:
        yield running


@pytest.mark.long(third=2)
def test_ranks_are_attached_and_released_from_a_notebook(
    two_nodes: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    assert two_nodes.aitne("admin", "user", "create", "bob").returncode == 0
    bob = two_nodes.login_link(two_nodes.token_of("bob"))
    start = f"{START} {sys.executable}"
    walk("ranks.mjs", two_nodes, two_nodes.token, chromium, tmp_path, start, bob)


@pytest.mark.long(third=3)
def test_ranks_are_attached_and_released_on_slurm(
    separate_slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    platform = separate_slurm_platform
    alice = platform.token_of("alice")
    bob = platform.login_link(platform.token_of("bob"))
    # Members of a project read its jobs, so the session belongs to a project of alice alone.
    changed = platform.aitne("admin", "member", "add", "vision", "alice", "--default")
    assert changed.returncode == 0, changed.stderr
    with shared_environment() as shared:
        start = f"{START} {shared}/venv/bin/python"
        walk("ranks.mjs", platform, alice, chromium, tmp_path, start, bob)
