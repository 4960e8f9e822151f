"""A session that ended is continued in the portal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform

pytestmark = marks(timeout_s=900)


@pytest.mark.long(third=1)
def test_a_session_is_continued_with_what_was_open_in_it(
    platform: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("continue.mjs", platform, platform.token, chromium, tmp_path, "person")
