"""Stops of an argument that ``scripts/trace_argument.py`` finds in a small program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "trace_argument.py"

CHECKS = """
def check_name(file, problems):
    problems.append(file.name)


def check_size(file, problems):
    report(file.size)


def report(size):
    print(size)
"""

JOBS = """
from aitne.services.checks import check_name, check_size
from aitne.services.store import Store

CHECKS = (check_name, check_size)


class Admission:
    def admit(self, request):
        for check in CHECKS:
            check(request, [])
        return make_spec(request)


def make_spec(file):
    return dict(file)


class JobService:
    def __init__(self, store: Store, admission: Admission):
        self._store = store
        self._admission = admission

    def create(self, file, key):
        self._replay(key)
        spec = self._admission.admit(file)
        return self._store.save(job=spec)

    def _replay(self, key):
        return key
"""

STORE = """
class Store:
    def save(self, job):
        return job
"""


@pytest.fixture
def backend(tmp_path: Path) -> Path:
    folder = tmp_path / "aitne" / "services"
    folder.mkdir(parents=True)
    for name, text in (("checks", CHECKS), ("jobs", JOBS), ("store", STORE)):
        (folder / f"{name}.py").write_text(text)
    return tmp_path


def trace(backend: Path, argument: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, "--backend", backend, argument]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_stops_are_functions_that_receive_the_argument_or_what_is_made_from_it(
    backend: Path,
) -> None:
    *stops, count = trace(backend, "services/jobs.py:JobService.create:file").stdout.splitlines()
    assert sorted(stops) == [
        "  Admission.admit aitne/services/jobs.py:9 request",
        "  JobService.create aitne/services/jobs.py:24 file spec",
        "  Store.save aitne/services/store.py:3 job",
        "  make_spec aitne/services/jobs.py:15 file",
        "* check_name aitne/services/checks.py:2 file",
        "* check_size aitne/services/checks.py:6 file",
    ]
    assert count == "6 stops, 2 of them in lists of functions; 4 names"


def test_unknown_argument_is_refused(backend: Path) -> None:
    refused = trace(backend, "services/jobs.py:JobService.create:job")
    assert refused.returncode == 2
    assert "there is no argument services/jobs.py:JobService.create:job" in refused.stderr
