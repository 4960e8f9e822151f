"""Tests of the records of a test run, and of its limits on reruns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.plugins.results import MAX_RERUNS, read_records

ROOT = Path(__file__).resolve().parents[2]

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
