"""Pictures of every page of the portal in both schemes and widths: ``make screenshots``.

A platform of its own is started with this machine's scheduler and filled as a group would; ``--language de``
takes the German portal, and names of pages take only those. ``tutorial`` takes the pictures of the tutorial
about notebooks, by running its cells; these are in English.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.platform import RunningPlatform

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


TUTORIAL = "tutorial"


def main() -> int:
    """Take them; 1 when a page has a fault, which is printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pages", nargs="*", metavar="page", help="only these of tests/e2e/pages.mjs, or tutorial"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "screenshots", help="the folder to fill")
    parser.add_argument("--language", choices=("en", "de"), default="en")
    arguments = parser.parse_args()
    chromium = os.environ.get("AITNE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        parser.error("there is no chromium: apt-get install chromium, or set AITNE_CHROMIUM")
    tutorial = TUTORIAL in arguments.pages
    if find_spec("torch") is not None:
        tutorial = tutorial or (not arguments.pages and arguments.language == "en")
    elif tutorial:
        parser.error("the notebook of the tutorial needs PyTorch: make distrib")
    pages = [page for page in arguments.pages if page != TUTORIAL]
    if pages:
        os.environ["AITNE_PAGES"] = ",".join(pages)
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Who ends this ends the platform too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status = 0
    if pages or not arguments.pages:
        status = _take_portal_screenshots(chromium, arguments.out, arguments.language)
    if tutorial:
        status = _take_tutorial_screenshots(chromium, arguments.out) or status
    return status


def _take_portal_screenshots(chromium: str, out: Path, language: str) -> int:
    """Take the pictures of the portal's pages; the exit status."""
    from tests.support.filled import CONFIG, as_argument, fill

    with _run_platform(CONFIG) as platform:
        filled = as_argument(fill(platform))
        return _run_browser_script("look.mjs", platform, chromium, out, filled, language)


def _take_tutorial_screenshots(chromium: str, out: Path) -> int:
    """Take the pictures of the tutorial about notebooks; the exit status."""
    from tests.support.documents import NOTEBOOK_TUTORIAL, cells

    with _run_platform("[local]\ncpus = 4\n") as platform:
        started = platform.aitne("session", "start", "jupyterlab", "--yes", "--wait")
        print(started.stdout, started.stderr, sep="\n")
        return _run_browser_script(
            "tutorial.mjs", platform, chromium, out, json.dumps(cells(NOTEBOOK_TUTORIAL))
        )


@contextmanager
def _run_platform(config: str) -> Iterator[RunningPlatform]:
    from tests.support.platform import RunningPlatform

    with TemporaryDirectory(prefix="aitne-screenshots-", ignore_cleanup_errors=True) as folder:
        platform = RunningPlatform(Path(folder), config)
        platform.start()
        try:
            yield platform
        finally:
            platform.stop()


def _run_browser_script(
    script: str, platform: RunningPlatform, chromium: str, out: Path, *arguments: str
) -> int:
    from tests.support.browser import show

    done = show(script, platform, platform.token, chromium, out, *arguments)
    print(done.stdout, done.stderr, sep="\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
