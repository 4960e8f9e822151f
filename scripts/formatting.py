"""Formatting of generated Python modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def format_source(source: str, path: Path) -> str:
    """Return the source of the module at ``path`` with sorted and used imports, as ruff formats it."""
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format", "--quiet"]):
        source = subprocess.run(
            [ruff, *command, "--stdin-filename", path, "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return source
