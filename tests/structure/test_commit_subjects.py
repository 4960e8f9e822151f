"""Commit subjects are Conventional Commits with a scope, as commitizen is set up for the hook and ``make check``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("feat(jobs): " + "a" * 60, True),
        ("feat(jobs): " + "a" * 61, False),
        (
            "fix(api/jobs)!: `aitne ps` lists arrays\n\nA text of several sentences. " + "a" * 80,
            True,
        ),
        ("feat: add arrays", False),
        ("feature(jobs): add arrays", False),
        ("feat(Jobs): add arrays", False),
        ("feat(jobs): Add arrays", False),
        ("feat(jobs): add arrays.", False),
        ("Merge branch 'side'", True),
    ],
)
def test_commit_subject_is_checked(tmp_path: Path, message: str, accepted: bool) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(f"{message}\n# Please enter the commit message for your changes.\n")
    command = [sys.executable, "-m", "commitizen.cli", "check", "--commit-msg-file", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode == 0) == accepted, done.stdout + done.stderr
