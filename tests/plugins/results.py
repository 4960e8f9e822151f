"""Records how long each test takes, and limits how many may pass only at a second attempt.

With ``AITNE_TEST_RESULTS`` set to a folder, each test adds a line to its ``tests.jsonl``; ``make test-times``
prints tables of them. A test marked ``realtime`` that fails is run once more. Every such rerun is listed
at the end, and more than ``MAX_RERUNS`` of them in the phases that share a folder fail the run.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.requirements import LACKING

MAX_RERUNS = 3
FILE_NAME = "tests.jsonl"
FOLDER = "AITNE_TEST_RESULTS"
"""The variable that names the folder of the record of this run."""
PHASE = "AITNE_TEST_PHASE"
"""The variable that names the phase of this run."""


@dataclass
class TestRecord:
    """The times and the outcome of one test over all its attempts."""

    __test__ = False

    node_id: str
    phase: str
    worker: str = ""
    setup_s: float = 0.0
    call_s: float = 0.0
    teardown_s: float = 0.0
    outcome: str = "passed"
    lacks: str = ""
    """The requirement for whose lack it was skipped, a name of ``tests/support/requirements.py``."""
    reruns: list[str] = field(default_factory=list)
    """For each failed attempt that was followed by another: the error's last line."""
    realtime: str = ""
    """The reason why the test depends on real time; the argument of its mark."""


def read_records(folder: Path) -> list[TestRecord]:
    """Return the records in a folder of results, oldest first; none if nothing was recorded."""
    try:
        lines = (folder / FILE_NAME).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [TestRecord(**json.loads(line)) for line in lines]


def earlier_records() -> list[TestRecord]:
    """Return the records of the earlier phases of this run; none where nothing is recorded."""
    folder, phase = os.environ.get(FOLDER), os.environ.get(PHASE, "")
    records = read_records(Path(folder)) if folder else []
    return [record for record in records if record.phase != phase]


class TestResults:
    """The pytest plugin that records durations and counts reruns, in the process that collects the reports."""

    __test__ = False

    def __init__(self) -> None:
        folder = os.environ.get(FOLDER)
        self._folder = None if not folder else Path(folder)
        self._phase = os.environ.get(PHASE, "")
        self._open: dict[str, TestRecord] = {}
        self._to_repeat: set[str] = set()
        self._rerun: list[TestRecord] = []
        self._earlier = sum(len(record.reruns) for record in earlier_records())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a report of set-up, call or teardown to its test's record."""
        record = self._open.setdefault(report.nodeid, TestRecord(report.nodeid, self._phase))
        record.worker = getattr(report, "worker_id", "")
        record.realtime = dict(report.user_properties).get("realtime", "")
        name = f"{report.when}_s"
        setattr(record, name, round(getattr(record, name) + report.duration, 3))
        if report.outcome == "rerun":
            record.reruns.append(error_line(report))
            self._to_repeat.add(report.nodeid)
        elif report.outcome != "passed":
            record.outcome = report.outcome
            lacking = LACKING.search(report.longreprtext) if report.outcome == "skipped" else None
            record.lacks = lacking["name"] if lacking else ""
        if report.when == "teardown":
            if report.nodeid in self._to_repeat:
                self._to_repeat.remove(report.nodeid)
            else:
                self._finish(self._open.pop(report.nodeid))

    def _finish(self, record: TestRecord) -> None:
        if record.reruns:
            self._rerun.append(record)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / FILE_NAME).open("a") as file:
                file.write(json.dumps(asdict(record)) + "\n")

    @property
    def reruns(self) -> int:
        """Return the number of repeated attempts in this session and in earlier phases of the run."""
        return self._earlier + sum(len(record.reruns) for record in self._rerun)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail the session when there were too many reruns."""
        if self._rerun and self.reruns > MAX_RERUNS and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """List every rerun with its error and the reason why the test may be repeated."""
        if not self._rerun:
            return
        terminalreporter.section("reruns")
        for record in self._rerun:
            for error in record.reruns:
                terminalreporter.line(f"RERUN {record.node_id} - {error}")
            terminalreporter.line(f"      realtime: {record.realtime}")
        if self.reruns > MAX_RERUNS:
            terminalreporter.line(
                f"FAILED: {self.reruns} reruns in this run; at most {MAX_RERUNS} are accepted.",
                red=True,
            )


class RealtimeTests:
    """The pytest plugin that allows tests marked ``realtime("reason")`` one second attempt."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give marked tests their second attempt. Raises ``pytest.UsageError`` for a mark without a reason."""
        for item in items:
            mark = item.get_closest_marker("realtime")
            if mark is None:
                continue
            if mark.kwargs or len(mark.args) != 1 or not isinstance(mark.args[0], str):
                raise pytest.UsageError(f"{item.nodeid}: realtime needs one argument, the reason.")
            item.user_properties.append(("realtime", mark.args[0]))
            item.add_marker(pytest.mark.flaky(reruns=1))


def error_line(report: pytest.TestReport) -> str:
    """Return the line that says what went wrong: the message of the error that ended the attempt."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no message"
    return lines[0] if crash is not None else lines[-1]
