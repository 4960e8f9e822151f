"""The browser and its walks, which are the scripts in tests/e2e."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from aitne.supervisor.nodejs_lookup import find_nodejs
from tests.support import realtime
from tests.support.platform import RunningPlatform
from tests.support.requirements import lacking

ROOT = Path(__file__).resolve().parents[2]


def marks(timeout_s: int) -> list[pytest.MarkDecorator]:
    """Return the marks of a module that walks through a platform's portal."""
    return [
        pytest.mark.platform,
        pytest.mark.browser,
        pytest.mark.timeout(timeout_s),
        realtime.BROWSER,
    ]


@pytest.fixture(scope="module")
def chromium() -> str:
    """The browser's program; skip where there is none, unless it is required."""
    found = os.environ.get("AITNE_CHROMIUM") or shutil.which("chromium")
    if found is None:
        lacking("browser", "no chromium: apt-get install chromium, or set AITNE_CHROMIUM")
    return found


def walk(
    script: str,
    platform: RunningPlatform,
    token: str,
    chromium: str,
    tmp_path: Path,
    *arguments: str,
) -> None:
    """Log in with a link of the token's owner, then what the script says, step by step."""
    shots = Path(os.environ.get("AITNE_SCREENSHOTS") or tmp_path)
    shots.mkdir(parents=True, exist_ok=True)
    done = show(script, platform, token, chromium, shots, *arguments)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\nscreenshots: {shots}"


def show(
    script: str,
    platform: RunningPlatform,
    token: str,
    chromium: str,
    shots: Path,
    *arguments: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder in a browser whose pictures go to ``shots``."""
    return subprocess.run(
        [
            str(find_nodejs().program),
            str(ROOT / "tests" / "e2e" / script),
            platform.url,
            platform.login_link(token),
            str(shots),
            *arguments,
        ],
        env={**os.environ, "AITNE_CHROMIUM": chromium},
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )


def assert_portal_shows_order(
    platform: RunningPlatform, token: str, job_id: str, chromium: str, tmp_path: Path
) -> None:
    """Assert that the portal shows the same order of a job's nodes as the API.

    The pictures, the tables and the plan are compared. The job has ended, ran one rank on each of 4
    to 8 nodes, and had another order than the given one.
    """
    walk("placement.mjs", platform, token, chromium, tmp_path, job_id)
