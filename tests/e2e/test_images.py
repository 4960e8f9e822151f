"""Sessions and jobs in images on data, as a user starts them in the portal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import DATASET
from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform

# The first run on a machine builds both images.
pytestmark = marks(timeout_s=1_500)


@pytest.mark.long(third=3)
def test_a_person_works_in_images_on_data(
    with_images: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    walk("images.mjs", with_images, with_images.token, chromium, tmp_path, DATASET)
