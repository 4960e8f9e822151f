"""The portal in Chromium, as a user uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import DATASET, walk
from tests.support import realtime
from tests.support.platform import RunningPlatform

# The first run on a machine builds both images.
pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.timeout(1_500),
    realtime.BROWSER,
]


def test_a_person_logs_in_works_and_leaves(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("journey.mjs", platform, platform.token, chromium, tmp_path)


@pytest.mark.long(third=1)
def test_a_session_is_continued_with_what_was_open_in_it(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("continue.mjs", platform, platform.token, chromium, tmp_path, "person")


def test_a_page_that_was_open_over_an_upgrade_loads_the_new_portal(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("upgrade.mjs", platform, platform.token, chromium, tmp_path)


@pytest.mark.long(third=3)
def test_a_person_works_in_images_on_data(
    with_images: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("images.mjs", with_images, with_images.token, chromium, tmp_path, DATASET)


@pytest.mark.long(third=2)
def test_journey_runs_on_slurm_as_the_user(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("journey.mjs", slurm_platform, slurm_platform.token_of("alice"), chromium, tmp_path)


@pytest.mark.long(third=2)
def test_a_session_is_continued_that_reached_its_time_limit_on_slurm(
    slurm_platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = slurm_platform.token_of("alice")
    walk("continue.mjs", slurm_platform, alice, chromium, tmp_path, "walltime")


@pytest.mark.long(third=3)
def test_images_run_on_slurm_as_the_user(
    slurm_with_images: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = slurm_with_images.token_of("alice")
    walk("images.mjs", slurm_with_images, alice, chromium, tmp_path, DATASET)
