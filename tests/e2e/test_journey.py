"""The portal in Chromium, as a user uses it from login to logout, and over an upgrade."""

from __future__ import annotations

from pathlib import Path

from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform

pytestmark = marks(timeout_s=900)


def test_a_person_logs_in_works_and_leaves(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("journey.mjs", platform, platform.token, chromium, tmp_path)


def test_a_page_that_was_open_over_an_upgrade_loads_the_new_portal(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("upgrade.mjs", platform, platform.token, chromium, tmp_path)
