"""The portal in Chromium, as a user of Slurm uses it from login to logout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform

pytestmark = marks(timeout_s=900)


@pytest.mark.long(third=2)
def test_journey_runs_on_slurm_as_the_user(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("journey.mjs", slurm_platform, slurm_platform.token_of("alice"), chromium, tmp_path)
