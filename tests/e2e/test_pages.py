"""Every page of the portal is free of serious findings of axe, horizontal overflow and errors."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.variants import FilledPlatform, each_variant, look_at
from tests.e2e.variants import filled as filled
from tests.support.browser import marks

pytestmark = marks(timeout_s=1_800)


@each_variant
def test_every_page_is_accessible(
    filled: FilledPlatform, language: str, variant: str, chromium: str, tmp_path: Path
) -> None:
    look_at("pages", filled, language, variant, chromium, tmp_path)
