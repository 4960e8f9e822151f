"""Every page of the portal, in both schemes, widths and languages: nothing serious for axe, nothing too wide, no error.

German is looked at where it is narrow: its words are the longer ones, its colours the same. `make screenshots` has all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import walk
from tests.support.filled import CONFIG, Filled, as_argument, fill
from tests.support.platform import RunningPlatform, environments_or_skip

pytestmark = [
    pytest.mark.platform,
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(1_800),
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
    ("language", "variants"),
    [("en", "1440-light,390-dark"), ("de", "390-light")],
    ids=["en", "de"],
)
def test_everybody_can_use_every_page(
    filled: tuple[RunningPlatform, Filled],
    language: str,
    variants: str,
    chromium: str,
    tmp_path: Path,
) -> None:
    platform, content = filled
    given = (as_argument(content), language, variants)
    walk("look.mjs", platform, platform.token, chromium, tmp_path, *given)
