"""The promises of the README's first page, kept by a platform with its defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import realtime
from tests.support.browser import chromium as chromium
from tests.support.browser import walk
from tests.support.platform import RunningPlatform, environments_or_skip

pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.timeout(300),
    realtime.BROWSER,
]


def test_platform_starts_runs_a_job_and_a_notebook_and_stops(chromium: str, tmp_path: Path) -> None:
    environments_or_skip()
    platform = RunningPlatform(tmp_path)
    try:
        platform.start()
        assert platform.ready()
        walk("smoke.mjs", platform, platform.token, chromium, tmp_path)
        jobs = json.loads(platform.aitne("ps", "--all", "--json").stdout)
        ended = {(job["template"], job["state"]) for job in jobs}
        assert ended == {("batch", "COMPLETED"), ("jupyterlab", "CANCELLED")}
    finally:
        platform.stop()
    assert not platform.ready()
    assert platform.pids() == {}
