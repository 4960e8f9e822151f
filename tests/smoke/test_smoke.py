"""The promises of the README's first page, kept by a platform with its defaults."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.browser import chromium as chromium
from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform, run_platform

pytestmark = marks(timeout_s=300)


def test_platform_starts_runs_a_job_and_a_notebook_and_stops(chromium: str, tmp_path: Path) -> None:
    with run_platform(RunningPlatform(tmp_path)) as platform:
        assert platform.ready()
        walk("smoke.mjs", platform, platform.token, chromium, tmp_path)
        jobs = json.loads(platform.aitne("ps", "--all", "--json").stdout)
        ended = {(job["template"], job["state"]) for job in jobs}
        assert ended == {("batch", "COMPLETED"), ("jupyterlab", "CANCELLED")}
    assert not platform.ready()
    assert platform.pids() == {}
