"""The portal in a real Chromium, as a person uses it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from aitne.supervisor.node import find_node
from tests.support.platform import RunningPlatform

pytestmark = [pytest.mark.platform, pytest.mark.browser, pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser's program; skip where there is none, unless it is required."""
    found = os.environ.get("AITNE_CHROMIUM") or shutil.which("chromium")
    if found is None:
        reason = "there is no chromium: apt-get install chromium, or set AITNE_CHROMIUM"
        if "browser" in os.environ.get("AITNE_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def test_a_person_logs_in_works_and_leaves(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    journey(platform, platform.token, chromium, tmp_path)


def test_a_person_does_the_same_on_slurm_as_herself(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    journey(slurm_platform, slurm_platform.token_of("alice"), chromium, tmp_path)


def journey(platform: RunningPlatform, token: str, chromium: str, tmp_path: Path) -> None:
    """Log in with a link of the token's owner, then what ``journey.mjs`` says, step by step."""
    answer = httpx.post(
        f"{platform.url}/api/v1/auth/login-links",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    )
    answer.raise_for_status()
    shots = Path(os.environ.get("AITNE_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            str(find_node().program),
            str(ROOT / "tests" / "e2e" / "journey.mjs"),
            platform.url,
            answer.json()["url"],
            str(shots),
        ],
        env={**os.environ, "AITNE_CHROMIUM": chromium},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\nscreenshots: {shots}"
