"""Tests of the selection of tests by what changed, and of the lists in ``tests/selection.toml``."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.plugins.results import read_records
from tests.plugins.selection import (
    FOLDERS,
    LAST_FULL,
    ROOT,
    Selection,
    called_tests,
    changed_files,
    files_of,
    read_selection,
    third_of_commit,
)
from tests.support.pytest_run import run_pytest

LISTS = """
core = ["tests/unit/"]
core_ranks = 2
always = ["tests/security/"]
everything = ["core/"]
[[change]]
code = ["limits/"]
tests = ["tests/integration/test_limits.py"]
"""
CONFTEST = """
from pathlib import Path
from tests.plugins import scheduling, selection, time_limit
from tests.plugins.results import TestResults

def pytest_addoption(parser):
    parser.addoption("--select", choices=selection.CHOICES, default="all")

def pytest_configure(config):
    config.addinivalue_line("markers", "long: see pyproject.toml")
    config.pluginmanager.register(selection.SelectedTests(config, Path(__file__).parent))
    config.pluginmanager.register(scheduling)
    config.pluginmanager.register(TestResults())
    time_limit.register(config)
"""
UNIT = """
import pytest
@pytest.mark.parametrize("size", [1, 3])
def test_ranks(size): pass
@pytest.mark.long
def test_long(): pass
def test_skipped(): pytest.skip("needs root (lacks slurm)")
"""
INTEGRATION = """
import pytest
@pytest.mark.long(third=1)
def test_first(): pass
@pytest.mark.long(third=2)
def test_second(): pass
@pytest.mark.long
def test_each_run(): pass
"""


@pytest.fixture
def selection() -> Selection:
    return read_selection()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with tests, whose last full run was of its first commit."""
    for name, text in {
        ".gitignore": "__pycache__/\n.pytest_cache/\nresults/\n",
        "tests/selection.toml": LISTS,
        "conftest.py": CONFTEST,
        "tests/unit/test_unit.py": UNIT,
        "tests/integration/test_limits.py": INTEGRATION,
        "tests/integration/test_other.py": INTEGRATION,
        "tests/security/test_tokens.py": "def test_tokens(): pass\n",
        "limits/limit.py": "",
        "core/model.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "alice")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "alice@example.org")
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".ci").mkdir()
    (tmp_path / LAST_FULL).write_text(f"{commit(tmp_path)}\n")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    argv = ["git", *arguments]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> str:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "change")
    return git(folder, "rev-parse", "HEAD").strip()


def selected(checkout: Path, choice: str) -> set[str]:
    """Run the tests that a choice selects; return their names with the name of their file."""
    completed = run_pytest(checkout, "--select", choice, "tests", phase=choice)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return set(
        re.findall(r"^tests/\w+/test_(.+?) (?:PASSED|SKIPPED)", completed.stdout, re.MULTILINE)
    )


def test_every_backend_folder_calls_for_tests(selection: Selection) -> None:
    files = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    lists = (selection.everything, *(code for code, _ in selection.changes), FOLDERS)
    listed = tuple(path for paths in lists for path in paths)
    unlisted = {file for file in files if not file.startswith(listed)}
    assert unlisted == set(), "name these files in tests/selection.toml"


def test_every_path_of_the_lists_exists(selection: Selection) -> None:
    files = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    code = [path for paths, _ in selection.changes for path in paths]
    tests = [path for _, paths in selection.changes for path in paths]
    prefixes = {*selection.core, *selection.always, *selection.everything, *code, *tests}
    wrong = {path for path in prefixes if not any(file.startswith(path) for file in files)}
    assert wrong == set()


@pytest.mark.parametrize(
    ("path", "test"),
    [
        (
            "backend/aitne/services/projects/limit_checks.py",
            "tests/integration/accounting/test_slurm.py",
        ),
        ("backend/aitne/adapters/identity/ldap.py", "tests/integration/identity/test_ldap.py"),
        ("backend/aitne/broker/main.py", "tests/integration/broker/test_socket.py"),
        ("runtime/aitne_train/collective_engine.py", "runtime/tests/ranks/test_engine.py"),
        ("backend/aitne/core/models/job.py", "tests/machines/test_cluster.py"),
        ("tests/support/ports.py", "tests/machines/test_cluster.py"),
        ("tests/machines/fleet.py", "tests/machines/test_cluster.py"),
        ("tests/machines/test_cluster.py", "tests/machines/test_cluster.py"),
        ("README.md", "tests/security/test_matrix.py"),
    ],
)
def test_changed_file_calls_for_the_tests_of_its_subject(
    selection: Selection, path: str, test: str
) -> None:
    assert test in files_of(selection, called_tests(selection, [path]))


def test_changes_call_together_and_unknown_files_for_everything(selection: Selection) -> None:
    called = called_tests(selection, ["frontend/src/main.tsx", "runtime/tests/ranks/test_shm.py"])
    assert called == {"tests/e2e/", "runtime/tests/ranks/test_shm.py"}
    assert called_tests(selection, []) == frozenset()
    assert called_tests(selection, ["frontend/src/main.tsx", "unheard/of.py"]) is None


def test_core_has_no_long_tests_and_no_more_ranks(checkout: Path) -> None:
    assert selected(checkout, "core") == {"unit.py::test_ranks[1]", "unit.py::test_skipped"}


def test_rest_repeats_what_make_test_skipped(checkout: Path) -> None:
    selected(checkout, "core")
    every = {
        f"{file}.py::test_{name}"
        for file in ("limits", "other")
        for name in ("first", "second", "each_run")
    }
    rest = {
        "unit.py::test_ranks[3]",
        "unit.py::test_long",
        "tokens.py::test_tokens",
        "unit.py::test_skipped",
        *every,
    }
    assert selected(checkout, "rest") == rest


def test_change_selects_its_subject_what_always_runs_and_a_third_of_the_others(
    checkout: Path,
) -> None:
    (checkout / "limits/limit.py").write_text("changed = True\n")
    while third_of_commit(commit(checkout)) != 2:
        pass
    always = {"tokens.py::test_tokens", "unit.py::test_long"}
    limits = {"limits.py::test_first", "limits.py::test_second", "limits.py::test_each_run"}
    others = {"other.py::test_second", "other.py::test_each_run"}
    chosen = selected(checkout, "changed") - {"unit.py::test_ranks[3]"}
    assert chosen == always | limits | others


@pytest.mark.parametrize("case", ["missing", "equal", "no ancestor", "core changed"])
def test_missing_full_run_selects_all_tests(case: str, checkout: Path) -> None:
    match case:
        case "missing":
            (checkout / LAST_FULL).unlink()
        case "equal":
            (checkout / LAST_FULL).write_text(git(checkout, "rev-parse", "HEAD"))
        case "no ancestor":
            (checkout / LAST_FULL).write_text("0" * 40)
        case _:
            (checkout / "core/model.py").write_text("changed = True\n")
    assert len(selected(checkout, "changed")) == 9


def test_always_and_named_tests_begin_before_the_others(checkout: Path) -> None:
    for changed in ("core/model.py", "limits/limit.py"):
        (checkout / changed).write_text("changed = True\n")
    commit(checkout)
    selected(checkout, "changed")
    order = [record.node_id.partition("::")[0] for record in read_records(checkout / "results")]
    assert list(dict.fromkeys(order))[:2] == [
        "tests/security/test_tokens.py",
        "tests/integration/test_limits.py",
    ]


def test_tests_that_would_begin_after_the_time_limit_are_recorded(checkout: Path) -> None:
    completed = run_pytest(checkout, "tests", until="1")
    assert completed.returncode == 0
    records = read_records(checkout / "results")
    assert {(record.outcome, record.lacks) for record in records} == {("skipped", "time")}


def test_uncommitted_and_new_files_count_as_changed(checkout: Path) -> None:
    assert changed_files(checkout) == []
    (checkout / "limits/limit.py").write_text("changed = True\n")
    (checkout / "limits/new file.py").write_text("")
    assert changed_files(checkout) == ["limits/limit.py", "limits/new file.py"]


@pytest.mark.parametrize(
    ("file", "mark", "message"),
    [
        ("tests/security/test_tokens.py", "long(third=1)", "A test that always runs has no third"),
        ("tests/integration/test_other.py", "long(third=4)", "Use long or long(third=1), 2 or 3"),
        ("tests/integration/test_other.py", "long(1)", "Use long or long(third=1), 2 or 3"),
    ],
)
def test_wrong_third_is_refused(file: str, mark: str, message: str, checkout: Path) -> None:
    (checkout / file).write_text(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n")
    completed = run_pytest(checkout, "tests")
    assert completed.returncode == 1
    assert message in completed.stdout


def test_commit_picks_a_third() -> None:
    assert {third_of_commit(f"{number:040x}") for number in range(7)} == {1}
    assert {third_of_commit(f"{number:08x}{0:032x}") for number in range(7)} == {1, 2, 3}
