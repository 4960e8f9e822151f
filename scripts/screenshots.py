"""Pictures of every page of the portal in both schemes and widths: ``make screenshots``.

A platform of its own is started with this machine's scheduler and filled as a group would; ``--language de``
takes the German portal, and names of pages take only those.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> int:
    """Take them; 1 when a page has a fault, which is printed."""
    from tests.e2e.conftest import show
    from tests.support.filled import CONFIG, as_argument, fill
    from tests.support.platform import RunningPlatform

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pages", nargs="*", metavar="page", help="only these of tests/e2e/pages.mjs"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "screenshots", help="the folder to fill")
    parser.add_argument("--language", choices=("en", "de"), default="en")
    arguments = parser.parse_args()
    chromium = os.environ.get("AITNE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        parser.error("there is no chromium: apt-get install chromium, or set AITNE_CHROMIUM")
    if arguments.pages:
        os.environ["AITNE_PAGES"] = ",".join(arguments.pages)
    arguments.out.mkdir(parents=True, exist_ok=True)
    # Who ends this ends the platform too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with TemporaryDirectory(prefix="aitne-screenshots-", ignore_cleanup_errors=True) as folder:
        platform = RunningPlatform(Path(folder), CONFIG)
        platform.start()
        try:
            done = show(
                *("look.mjs", platform, platform.token, chromium, arguments.out),
                *(as_argument(fill(platform)), arguments.language),
            )
        finally:
            platform.stop()
    print(done.stdout, done.stderr, sep="\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
