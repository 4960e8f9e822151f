"""Sessions and jobs in images on data, as a user of Slurm starts them in the portal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import DATASET
from tests.support.browser import marks, walk
from tests.support.platform import RunningPlatform

# The first run on a machine builds both images.
pytestmark = marks(timeout_s=1_500)


@pytest.mark.long(third=3)
def test_images_run_on_slurm_as_the_user(
    slurm_with_images: RunningPlatform, chromium: str, tmp_path: Path
) -> None:
    alice = slurm_with_images.token_of("alice")
    walk("images.mjs", slurm_with_images, alice, chromium, tmp_path, DATASET)
