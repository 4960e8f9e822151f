"""Selects the tests marked ``long``: none, all, or the third that the commit's hash picks.

``@pytest.mark.long(third=2)`` puts a test into the second third. ``@pytest.mark.long`` without an
argument means that every third includes the test; tests of security, of plug-in contracts and of faults
have no other choice.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHOICES = ("all", "none", "third", "1", "2", "3")
NEVER_ROTATED = ("tests/security", "tests/contract", "tests/fault")
"""Folders whose long tests run with every third."""
_ROOT = Path(__file__).resolve().parents[2]


def third_of_commit(commit: str) -> int:
    """Return the third, 1 to 3, that a commit's hexadecimal hash picks."""
    return int(commit[:8], 16) % 3 + 1


def head_commit(root: Path = _ROOT) -> str | None:
    """Return the hash of the checked-out commit; None without git or outside a repository."""
    argv = ["git", "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        completed = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return completed.stdout.strip() or None


class LongTests:
    """The pytest plugin that deselects the long tests of the other thirds.

    Args:
        config: provides the option ``--long``.
    """

    def __init__(self, config: pytest.Config) -> None:
        choice = config.getoption("--long")
        self._reason = ""
        if choice == "third":
            commit = head_commit()
            # Without a commit nothing can rotate: all run.
            choice = "all" if commit is None else str(third_of_commit(commit))
            self._reason = " (no commit)" if commit is None else f" (commit {commit[:7]})"
        self._choice = choice

    def pytest_report_header(self) -> str:
        """Return a header line that names the selection of long tests."""
        rotated = f"third {self._choice} of 3" if self._choice.isdigit() else self._choice
        return f"long tests: {rotated}{self._reason}"

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect the tests that the choice leaves out.

        Raises:
            pytest.UsageError: a mark names no third, or rotates a test that must always run.
        """
        selected = [item for item in items if self._selects(item)]
        if len(selected) < len(items):
            kept = set(selected)
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = selected

    def _selects(self, item: pytest.Item) -> bool:
        mark = item.get_closest_marker("long")
        if mark is None:
            return True
        third = mark.kwargs.get("third")
        if mark.args or mark.kwargs.keys() - {"third"} or third not in (None, 1, 2, 3):
            raise pytest.UsageError(f"{item.nodeid}: use long or long(third=1), 2 or 3.")
        if third is not None and item.nodeid.startswith(NEVER_ROTATED):
            raise pytest.UsageError(f"{item.nodeid}: long tests of this folder never rotate.")
        if self._choice == "none":
            return False
        return self._choice == "all" or third is None or str(third) == self._choice
