"""Refuse modules over 500 lines, which do more than one thing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST_LINES = 500
PATTERNS = ("*.py", "*.ts", "*.tsx", "*.mjs")
GENERATED = {"backend/aitne/client/aio.py", "frontend/src/api/schema.d.ts"}


def main() -> int:
    """Print each offender; the exit status says whether there is one."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PATTERNS],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    too_long = [
        (name, lines)
        for name in listed
        if name not in GENERATED and Path(name).exists()
        if (lines := len(Path(name).read_bytes().splitlines())) > MOST_LINES
    ]
    for name, lines in too_long:
        print(f"{name}: {lines} lines; split it (at most {MOST_LINES}).")
    return bool(too_long)


if __name__ == "__main__":
    sys.exit(main())
