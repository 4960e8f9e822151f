"""Install what the tests use from Debian's packages, if it is missing and we may: PostgreSQL, Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "postgresql": lambda: any(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
    "chromium": lambda: shutil.which("chromium") is not None,
}


def main() -> int:
    """Install the missing ones as root; otherwise say what the tests will skip and how to change that."""
    missing = [name for name, present in PACKAGES.items() if not present()]
    if not missing:
        return 0
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(
            f"Missing: {', '.join(missing)}. The tests that need them are skipped; "
            f"to run them: sudo apt-get install --no-install-recommends {' '.join(missing)}",
            file=sys.stderr,
        )
        return 0
    print(f"Installing {', '.join(missing)} …", file=sys.stderr)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for argv in (
        ["apt-get", "-qq", "update"],
        ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing],
    ):
        done = subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            print(f"{' '.join(argv)} failed with {done.returncode}.", file=sys.stderr)
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
