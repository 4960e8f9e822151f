"""Every page of the portal is free of serious findings of axe, horizontal overflow and errors.

A CI run tests one variant of width, scheme and language. German is tested on the narrow page only: its words
are longer, its colors the same. `make screenshots` shows all combinations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import walk
from tests.support import realtime
from tests.support.filled import CONFIG, Filled, as_argument, fill
from tests.support.platform import RunningPlatform, environments_or_skip

pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.timeout(1_800),
    realtime.BROWSER,
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningPlatform, Filled]]:
    """A platform with something on every page."""
    environments_or_skip()
    running = RunningPlatform(tmp_path_factory.mktemp("filled"), CONFIG)
    try:
        running.start()
        yield running, fill(running)
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("language", "variant"),
    [
        pytest.param("en", "1440-light", marks=pytest.mark.long(third=1)),
        pytest.param("en", "390-dark", marks=pytest.mark.long(third=2)),
        pytest.param("de", "390-light", marks=pytest.mark.long(third=3)),
    ],
)
def test_every_page_is_accessible(
    filled: tuple[RunningPlatform, Filled],
    language: str,
    variant: str,
    chromium: str,
    tmp_path: Path,
) -> None:
    platform, content = filled
    arguments = (as_argument(content), language, variant)
    walk("look.mjs", platform, platform.token, chromium, tmp_path, *arguments)
