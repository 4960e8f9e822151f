"""Ranks of a notebook in a real Chromium: on this machine's scheduler with two nodes, and on a real Slurm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import walk
from tests.support import realtime
from tests.support.platform import RunningPlatform, environments_or_skip
from tests.support.requirements import need_package
from tests.support.training import shared_environment

pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.timeout(900),
    realtime.BROWSER,
]
START = "4 --nodes 2 --memory 700M --idle 10m --python"


@pytest.fixture
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """A platform with two nodes on this machine."""
    need_package("torch")
    environments_or_skip()
    root = tmp_path_factory.mktemp("platform")
    running = RunningPlatform(root, "[local]\nnodes = 2\ncpus = 8", domain="localhost")
    try:
        running.start()
        yield running
    finally:
        running.stop()


def _login_link(platform: RunningPlatform, token: str) -> str:
    answer = httpx.post(
        f"{platform.url}/api/v1/auth/login-links",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    answer.raise_for_status()
    return str(answer.json()["url"])


@pytest.mark.long(third=2)
def test_ranks_are_attached_and_released_from_a_notebook(
    two_nodes: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    assert two_nodes.aitne("admin", "user", "create", "bob").returncode == 0
    bob = _login_link(two_nodes, two_nodes.token_of("bob"))
    start = f"{START} {sys.executable}"
    walk("ranks.mjs", two_nodes, two_nodes.token, chromium, tmp_path, start, bob)


@pytest.mark.long(third=3)
def test_ranks_are_attached_and_released_on_slurm(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = slurm_platform.token_of("alice")
    bob = _login_link(slurm_platform, slurm_platform.token_of("bob"))
    # Members of a project read its jobs, so the session belongs to a project of alice alone.
    changed = slurm_platform.aitne("admin", "member", "add", "vision", "alice", "--default")
    assert changed.returncode == 0, changed.stderr
    with shared_environment() as shared:
        start = f"{START} {shared}/venv/bin/python"
        walk("ranks.mjs", slurm_platform, alice, chromium, tmp_path, start, bob)
