"""The variants of width, scheme and language in which the portal's pages are looked at.

A CI run tests one of them, or all if the portal has changed. German is tested on the narrow page only: its words are longer, its colors
the same. `make screenshots` shows all combinations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import walk
from tests.support.filled import CONFIG, Filled, as_argument, fill
from tests.support.platform import RunningPlatform, run_platform

FilledPlatform = tuple[RunningPlatform, Filled]

each_variant = pytest.mark.parametrize(
    ("language", "variant"),
    [
        pytest.param("en", "1440-light", marks=pytest.mark.long(third=1)),
        pytest.param("en", "390-dark", marks=pytest.mark.long(third=2)),
        pytest.param("de", "390-light", marks=pytest.mark.long(third=3)),
    ],
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlatform]:
    """A platform with something on every page."""
    with run_platform(RunningPlatform(tmp_path_factory.mktemp("filled"), CONFIG)) as running:
        yield running, fill(running)


def look_at(
    kind: str, filled: FilledPlatform, language: str, variant: str, chromium: str, tmp_path: Path
) -> None:
    """Assert that axe, the width and the console show no fault; ``kind`` is ``pages`` or ``dialogs``."""
    platform, content = filled
    arguments = (as_argument(content), language, variant, kind)
    walk("look.mjs", platform, platform.token, chromium, tmp_path, *arguments)
