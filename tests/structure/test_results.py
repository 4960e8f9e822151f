"""Tests of the records of a test run, and of its limits on reruns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.long import third_of_commit
from tests.plugins.results import MAX_RERUNS, read_records

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
from tests.plugins import long
from tests.plugins.results import RealtimeTests, TestResults

def pytest_addoption(parser):
    parser.addoption("--long", choices=long.CHOICES, default="all")

def pytest_configure(config):
    for name in ("long", "realtime"):
        config.addinivalue_line("markers", f"{name}: see pyproject.toml")
    config.pluginmanager.register(long.LongTests(config))
    config.pluginmanager.register(RealtimeTests())
    config.pluginmanager.register(TestResults())
"""
HEADER = "import pytest\nattempts = []\n"
FLAKY = """
@pytest.mark.realtime("waits for a heartbeat of 2 s")
@pytest.mark.parametrize("number", range({count}))
def test_flaky(number):
    attempts.append(number)
    assert attempts.count(number) > 1, "no heartbeat"
"""
LONG = """
@pytest.mark.long
def test_each_run(): pass
@pytest.mark.long(third=1)
def test_first(): pass
@pytest.mark.long(third=2)
def test_second(): pass
def test_short(): pass
"""


def run_pytest(
    folder: Path, source: str, *options: str, file: str = "test_it.py"
) -> subprocess.CompletedProcess[str]:
    """Run pytest with the project's plugins on one module; its results go to ``folder/results``."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / file).write_text(HEADER + source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_rerunfailures", "-v", *options],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if "PYTEST" not in name},
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "AITNE_TEST_RESULTS": str(folder / "results"),
            "AITNE_TEST_PHASE": "unit",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_rerun_is_accepted_recorded_and_listed_with_its_reason(tmp_path: Path) -> None:
    completed = run_pytest(tmp_path, FLAKY.format(count=1))
    assert completed.returncode == 0, completed.stdout
    assert "RERUN test_it.py::test_flaky[0] - AssertionError: no heartbeat" in completed.stdout
    assert "realtime: waits for a heartbeat of 2 s" in completed.stdout
    (record,) = read_records(tmp_path / "results")
    assert (record.node_id, record.phase) == ("test_it.py::test_flaky[0]", "unit")
    assert (record.outcome, record.reruns) == ("passed", ["AssertionError: no heartbeat"])


def test_reruns_above_the_limit_fail_the_run_over_all_its_phases(tmp_path: Path) -> None:
    first = run_pytest(tmp_path, FLAKY.format(count=MAX_RERUNS))
    assert first.returncode == 0, first.stdout
    second = run_pytest(tmp_path, FLAKY.format(count=1))
    assert second.returncode == 1, second.stdout
    assert f"{MAX_RERUNS + 1} reruns in this run" in second.stdout


def test_unmarked_test_has_one_attempt(tmp_path: Path) -> None:
    unmarked = FLAKY.format(count=1).replace('@pytest.mark.realtime("waits', "# ")
    completed = run_pytest(tmp_path, unmarked)
    assert completed.returncode == 1
    (record,) = read_records(tmp_path / "results")
    assert (record.outcome, record.reruns) == ("failed", [])


def test_realtime_mark_without_reason_is_refused(tmp_path: Path) -> None:
    source = "@pytest.mark.realtime\ndef test_it(): pass\n"
    assert "needs one argument, the reason" in run_pytest(tmp_path, source).stderr


@pytest.mark.parametrize(
    ("choice", "selected"),
    [
        ("all", {"each_run", "first", "second", "short"}),
        ("none", {"short"}),
        ("1", {"each_run", "first", "short"}),
        ("3", {"each_run", "short"}),
    ],
)
def test_long_tests_are_selected(tmp_path: Path, choice: str, selected: set[str]) -> None:
    completed = run_pytest(tmp_path, LONG, "--long", choice)
    assert completed.returncode == 0, completed.stdout
    names = {
        record.node_id.partition("::test_")[2] for record in read_records(tmp_path / "results")
    }
    assert names == selected


@pytest.mark.parametrize("folder", ["security", "contract", "fault"])
def test_rotation_is_refused_where_every_run_counts(tmp_path: Path, folder: str) -> None:
    completed = run_pytest(tmp_path, LONG, file=f"tests/{folder}/test_it.py")
    assert "never rotate" in completed.stderr, completed.stdout


def test_commit_picks_a_third() -> None:
    thirds = {third_of_commit(f"{number:040x}") for number in range(7)}
    assert thirds == {1}
    assert {third_of_commit(f"{number:08x}{0:032x}") for number in range(7)} == {1, 2, 3}
