"""Tests of the records of a test run, and of its limits on reruns."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.plugins.results import MAX_RERUNS, read_records
from tests.support.pytest_run import run_pytest

CONFTEST = """
from tests.plugins.results import RealtimeTests, TestResults

def pytest_configure(config):
    config.addinivalue_line("markers", "realtime: see pyproject.toml")
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


def run_plugins(
    folder: Path, source: str, *, phase: str = "unit"
) -> subprocess.CompletedProcess[str]:
    """Run pytest with the project's plugins on one module; its results go to ``folder/results``."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(HEADER + source)
    return run_pytest(folder, "-p", "pytest_rerunfailures", phase=phase)


def test_rerun_is_accepted_recorded_and_listed_with_its_reason(tmp_path: Path) -> None:
    completed = run_plugins(tmp_path, FLAKY.format(count=1))
    assert completed.returncode == 0, completed.stdout
    assert "RERUN test_it.py::test_flaky[0] - AssertionError: no heartbeat" in completed.stdout
    assert "realtime: waits for a heartbeat of 2 s" in completed.stdout
    (record,) = read_records(tmp_path / "results")
    assert (record.node_id, record.phase) == ("test_it.py::test_flaky[0]", "unit")
    assert (record.outcome, record.reruns) == ("passed", ["AssertionError: no heartbeat"])


def test_reruns_above_the_limit_fail_the_run_over_all_its_phases(tmp_path: Path) -> None:
    first = run_plugins(tmp_path, FLAKY.format(count=MAX_RERUNS))
    assert first.returncode == 0, first.stdout
    second = run_plugins(tmp_path, FLAKY.format(count=1), phase="system")
    assert second.returncode == 1, second.stdout
    assert f"{MAX_RERUNS + 1} reruns in this run" in second.stdout


def test_unmarked_test_has_one_attempt(tmp_path: Path) -> None:
    unmarked = FLAKY.format(count=1).replace('@pytest.mark.realtime("waits', "# ")
    completed = run_plugins(tmp_path, unmarked)
    assert completed.returncode == 1
    (record,) = read_records(tmp_path / "results")
    assert (record.outcome, record.reruns) == ("failed", [])


def test_realtime_mark_without_reason_is_refused(tmp_path: Path) -> None:
    source = "@pytest.mark.realtime\ndef test_it(): pass\n"
    assert "needs one argument, the reason" in run_plugins(tmp_path, source).stderr
