"""A session that ended on Slurm is continued in the portal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform

pytestmark = marks(timeout_s=900)


@pytest.mark.long(third=2)
def test_a_session_is_continued_that_reached_its_time_limit_on_slurm(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = slurm_platform.token_of("alice")
    walk("continue.mjs", slurm_platform, alice, chromium, tmp_path, "walltime")
