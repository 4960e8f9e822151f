"""A pytest of its own, for the tests of the project's pytest plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_pytest(
    folder: Path, *options: str, phase: str = "unit", until: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the tests in a folder, whose conftest.py names the plugins.

    The record of the run goes to ``folder/results``, with the name of its phase. Tests begin until the time
    ``until``, in seconds since 1970; by default at any time.
    """
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *options],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "AITNE_TEST_RESULTS": str(folder / "results"),
            "AITNE_TEST_PHASE": phase,
            "AITNE_TEST_UNTIL": until,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
