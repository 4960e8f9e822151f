"""Selects tests: those of ``make test``, and of the rest those that a change calls for.

``tests/selection.toml`` lists which folders call for which tests. A change is what differs from the commit in
``.ci/last-full``, the last one on which all tests passed. Without such a commit everything is selected. What
a change does not call for runs by thirds, which the hash of the checked-out commit picks:
``@pytest.mark.long(third=2)`` names a test's third, otherwise the name of its file decides. In case that time
is short, what always runs begins first, then what the change calls for by name, then the third, then the others.
"""

from __future__ import annotations

import subprocess
import tomllib
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugins.results import earlier_records
from tests.plugins.scheduling import URGENCY, scope_of

CHOICES = ("all", "core", "rest", "changed")
ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests/", "runtime/tests/")
"""The folders of tests."""
LAST_FULL = ".ci/last-full"
"""The file with the hash of the last commit on which all tests passed."""


@dataclass(frozen=True)
class Selection:
    """The content of ``tests/selection.toml``; all paths are prefixes, relative to the checkout."""

    core: tuple[str, ...]
    """The tests of ``make test``, unless they are marked ``long``."""
    core_ranks: int
    """The largest number of ranks of a core test."""
    always: tuple[str, ...]
    """Tests that every run of CI includes."""
    everything: tuple[str, ...]
    """What calls for all tests."""
    changes: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """Pairs of sources and of the tests that these call for."""

    def tests_of(self, path: str) -> frozenset[str] | None:
        """Return the prefixes of the tests that a changed file calls for; None: all tests.

        A test file calls for itself, another file of a folder of tests for that folder.
        """
        if path.startswith(self.everything):
            return None
        called = {test for code, tests in self.changes if path.startswith(code) for test in tests}
        if path.startswith(FOLDERS):
            name = path.rpartition("/")[2]
            called.add(path if name.startswith("test_") else path.removesuffix(name))
        return frozenset(called) if called else None

    def named_tests(self, changed: Iterable[str]) -> tuple[str, ...]:
        """Return the prefixes that changed files call for, apart from those that call for all tests."""
        return tuple({test for path in changed for test in self.tests_of(path) or ()})


def read_selection(root: Path = ROOT) -> Selection:
    """Return the lists in ``tests/selection.toml``."""
    content = tomllib.loads((root / "tests/selection.toml").read_text())
    return Selection(
        core=tuple(content["core"]),
        core_ranks=content["core_ranks"],
        always=tuple(content["always"]),
        everything=tuple(content["everything"]),
        changes=tuple(
            (tuple(change["code"]), tuple(change["tests"])) for change in content["change"]
        ),
    )


def called_tests(selection: Selection, changed: Iterable[str]) -> frozenset[str] | None:
    """Return the prefixes of the tests that changed files call for together; None: all tests."""
    called: set[str] = set()
    for path in changed:
        tests = selection.tests_of(path)
        if tests is None:
            return None
        called |= tests
    return frozenset(called)


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """Return what a git command prints; None if it fails, outside a repository or without git."""
    try:
        completed = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return completed.stdout if completed.returncode == 0 else None


def changed_files(root: Path = ROOT) -> list[str] | None:
    """Return the files that differ from the commit of the last full run, uncommitted ones included.

    None: there is no such commit before the checked-out one.
    """
    try:
        base = (root / LAST_FULL).read_text().strip()
    except FileNotFoundError:
        return None
    head = git("rev-parse", "HEAD", root=root)
    if head is None or head.strip() == base:
        return None
    if git("merge-base", "--is-ancestor", base, "HEAD", root=root) is None:
        return None
    changed = git("diff", "--name-only", "--no-renames", "-z", base, root=root)
    untracked = git("ls-files", "--others", "--exclude-standard", "-z", root=root)
    names = {name for text in (changed, untracked) for name in (text or "").split("\0") if name}
    return sorted(names - {LAST_FULL})


def third_of_commit(commit: str) -> int:
    """Return the third, 1 to 3, that a commit's hexadecimal hash picks."""
    return int(commit[:8], 16) % 3 + 1


def third_of_file(node_id: str) -> int:
    """Return the third of a test without a third of its own: files that share a set-up have one third."""
    return zlib.crc32(scope_of(node_id).encode()) % 3 + 1


class SelectedTests:
    """The pytest plugin that deselects what the option ``--select`` leaves out.

    Args:
        config: provides the option.
        root: the checkout.
    """

    def __init__(self, config: pytest.Config, root: Path = ROOT) -> None:
        self._choice: str = config.getoption("--select")
        self._selection = read_selection(root)
        self._called: frozenset[str] | None = None
        self._named: tuple[str, ...] = ()
        self._third = 0
        self._skipped: Collection[str] = ()
        self._reason = ""
        if self._choice in ("rest", "changed"):
            # What `make test` skipped runs again: the machine may have it by now, or must have it.
            self._skipped = {record.node_id for record in earlier_records() if record.lacks}
        if self._choice != "changed":
            return
        changed = changed_files(root)
        head = git("rev-parse", "HEAD", root=root)
        self._third = third_of_commit(head) if head else 0
        if changed is None or head is None:
            self._reason = "all that `make test` leaves out: no earlier full run"
            return
        self._called = called_tests(self._selection, changed)
        self._named = self._selection.named_tests(changed)
        if self._called is None:
            path = next(path for path in changed if self._selection.tests_of(path) is None)
            self._reason = f"all that `make test` leaves out, for {path}"
            return
        self._reason = " ".join([f"third {self._third} of 3 and", *sorted(self._called)])

    def pytest_report_header(self) -> str:
        """Return a header line that names the selection."""
        return f"selected tests: {self._choice}" + (f" ({self._reason})" if self._reason else "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselect the tests that the choice leaves out."""
        selected = [item for item in items if self._selects(item)]
        if len(selected) < len(items):
            kept = set(selected)
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = selected
        urgency = config.stash[URGENCY] = {}
        for item in items:
            scope = scope_of(item.nodeid)
            urgency[scope] = min(urgency.get(scope, 6), self._urgency_of(item))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test whose mark names no third, or gives one to a test that must always run."""
        mark = item.get_closest_marker("long")
        if mark is None:
            return
        third = mark.kwargs.get("third")
        if mark.args or mark.kwargs.keys() - {"third"} or third not in (None, 1, 2, 3):
            pytest.fail("Use long or long(third=1), 2 or 3.", pytrace=False)
        if third is not None and item.nodeid.startswith(self._selection.always):
            pytest.fail("A test that always runs has no third.", pytrace=False)

    def _selects(self, item: pytest.Item) -> bool:
        if self._choice == "all":
            return True
        if self._is_core(item):
            return self._choice == "core" or item.nodeid in self._skipped
        if self._choice == "core":
            return False
        called, node_id = self._called, item.nodeid
        if called is None or node_id.startswith((*self._selection.always, *called)):
            return True
        return self._is_of_third(item)

    def _is_of_third(self, item: pytest.Item) -> bool:
        mark = item.get_closest_marker("long")
        if mark is None:
            return third_of_file(item.nodeid) == self._third
        return mark.kwargs.get("third") in (None, self._third)

    def _urgency_of(self, item: pytest.Item) -> int:
        """Return 0 to 5, the lowest for what must begin first; the third of the commit is preferred."""
        if self._choice != "changed" or item.nodeid.startswith(self._selection.always):
            return 0
        by_name = item.nodeid.startswith(self._named)
        return (2 if by_name else 4) + (not self._is_of_third(item))

    def _is_core(self, item: pytest.Item) -> bool:
        if item.get_closest_marker("long") or not item.nodeid.startswith(self._selection.core):
            return False
        callspec = getattr(item, "callspec", None)
        ranks = callspec.params.get("size", 1) if callspec is not None else 1
        return not isinstance(ranks, int) or ranks <= self._selection.core_ranks


def files_of(selection: Selection, called: frozenset[str] | None, root: Path = ROOT) -> list[str]:
    """Return the test files that a change calls for, those that always run included."""
    files = sorted(
        str(path.relative_to(root))
        for folder in FOLDERS
        for path in (root / folder).rglob("test_*.py")
        if path.is_file()
    )
    if called is None:
        return files
    return [file for file in files if file.startswith((*selection.always, *called))]
