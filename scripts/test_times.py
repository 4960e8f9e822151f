"""Measure the phases of a test run, and print their times and the slowest tests.

    test_times.py start                  remove the record of the last run, and note the tested commit
    test_times.py run PHASE COMMAND …    run a command as a phase
    test_times.py report [--slowest 50]  tables of the phases, folders and slowest tests
    test_times.py summary                the numbers of tests in all phases, in one line

The record is the folder ``test-results`` of the checkout; ``make test`` starts a new one and writes it,
``make test-times`` prints it. Phases need nothing but Python's standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.plugins.results import TestRecord

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "test-results"
PHASES = "phases.jsonl"


@dataclass(frozen=True)
class PhaseRecord:
    """The elapsed time, CPU time and exit status of one phase."""

    phase: str
    elapsed_s: float
    cpu_s: float
    """Processor time of its processes, user and system."""
    exit_status: int


def clean_commit() -> str:
    """Return the hash of the checked-out commit; empty if files differ from it, or without git."""
    try:
        status, head = (
            subprocess.run(["git", *verb], cwd=ROOT, capture_output=True, text=True, check=False)
            for verb in (["status", "--porcelain"], ["rev-parse", "HEAD"])
        )
    except FileNotFoundError:
        return ""
    return "" if status.returncode or status.stdout else head.stdout.strip()


def start_record() -> int:
    """Remove the record of the last run, and note the tested commit; return the exit status."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir()
    (RESULTS / "commit").write_text(clean_commit())
    return 0


def run_phase(name: str, command: list[str]) -> int:
    """Run a command, add its time to the record and return its exit status.

    Args:
        name: of the phase; tests record it too.
        command: argv.
    """
    RESULTS.mkdir(exist_ok=True)
    environ = {**os.environ, "AITNE_TEST_RESULTS": str(RESULTS), "AITNE_TEST_PHASE": name}
    started = time.monotonic()
    status = subprocess.run(command, env=environ, check=False).returncode
    elapsed_s = time.monotonic() - started
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = usage.ru_utime + usage.ru_stime
    record = PhaseRecord(name, round(elapsed_s, 1), round(cpu_s, 1), status)
    with (RESULTS / PHASES).open("a") as file:
        file.write(json.dumps(asdict(record)) + "\n")
    return status if status >= 0 else 128 - status


def phase_table(phases: list[PhaseRecord], tests: list[TestRecord]) -> list[str]:
    """Return a Markdown table of the phases, in their order, with a line for their sum."""
    lines = ["| phase | elapsed s | CPU s | tests | reruns |", "|---|---:|---:|---:|---:|"]
    for phase in phases:
        own = [test for test in tests if test.phase == phase.phase]
        reruns = sum(len(test.reruns) for test in own)
        lines.append(
            f"| {phase.phase} | {phase.elapsed_s:.0f} | {phase.cpu_s:.0f} | {len(own)} | {reruns} |"
        )
    reruns = sum(len(test.reruns) for test in tests)
    elapsed_s = sum(phase.elapsed_s for phase in phases)
    cpu_s = sum(phase.cpu_s for phase in phases)
    lines.append(f"| all | {elapsed_s:.0f} | {cpu_s:.0f} | {len(tests)} | {reruns} |")
    return lines


def folder_table(tests: list[TestRecord]) -> list[str]:
    """Return a Markdown table of the test time in each folder, summed over the processes."""
    times: Counter[str] = Counter()
    for test in tests:
        parts = test.node_id.split("/")
        folder = "/".join(parts[1 : 3 if parts[1] in ("unit", "integration", "contract") else 2])
        times[folder.partition("::")[0]] += round(test.setup_s + test.call_s + test.teardown_s, 3)
    lines = ["| folder | test s |", "|---|---:|"]
    return lines + [f"| {folder} | {time_s:.0f} |" for folder, time_s in times.most_common()]


def slowest_table(tests: list[TestRecord], count: int) -> list[str]:
    """Return a Markdown table of the tests that took longest, set-up and teardown included."""
    lines = ["| test | set-up s | call s | teardown s |", "|---|---:|---:|---:|"]
    tests = sorted(tests, key=lambda test: -(test.setup_s + test.call_s + test.teardown_s))
    return lines + [
        f"| {test.node_id.removeprefix('tests/')} "
        f"| {test.setup_s:.1f} | {test.call_s:.1f} | {test.teardown_s:.1f} |"
        for test in tests[:count]
    ]


def read_tests() -> list[TestRecord]:
    """Return the records of all tests, oldest first."""
    sys.path.insert(0, str(ROOT))
    from tests.plugins.results import read_records

    return read_records(RESULTS)


def last_records() -> dict[str, TestRecord]:
    """Return the last record of each test, by node id: a phase may run what an earlier one skipped."""
    return {test.node_id: test for test in read_tests()}


def print_summary() -> int:
    """Print the numbers of tests by their last outcome; return 1 if one failed or none ran."""
    tests = last_records().values()
    from tests.plugins.time_limit import LACKS

    outcomes = Counter(test.outcome for test in tests)
    passed, failed, skipped = (outcomes[name] for name in ("passed", "failed", "skipped"))
    late = sum(test.lacks == LACKS for test in tests)
    of_them = f" ({late} of them for lack of time)" if late else ""
    print(f"{passed} passed, {failed} failed, {skipped} skipped{of_them}")
    return 1 if failed or not passed else 0


def print_report(count: int) -> int:
    """Print the tables; return 1 if there is no record."""
    try:
        lines = (RESULTS / PHASES).read_text().splitlines()
    except FileNotFoundError:
        print("No test run is recorded here. Run: make test", file=sys.stderr)
        return 1
    phases = [PhaseRecord(**json.loads(line)) for line in lines]
    tests = read_tests()
    tables = (phase_table(phases, tests), folder_table(tests), slowest_table(tests, count))
    print("\n\n".join("\n".join(table) for table in tables))
    return 0


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("start", help="begin a new record")
    verbs.add_parser("summary", help="print the numbers of tests")
    run = verbs.add_parser("run", help="run a command as a phase")
    run.add_argument("phase")
    run.add_argument("command", nargs=argparse.REMAINDER)
    tables = verbs.add_parser("report", help="print where the time went")
    tables.add_argument("--slowest", type=int, default=50, help="how many tests to list")
    options = parser.parse_args()
    match options.verb:
        case "start":
            return start_record()
        case "run":
            return run_phase(options.phase, options.command)
        case "summary":
            return print_summary()
        case _:
            return print_report(options.slowest)


if __name__ == "__main__":
    sys.exit(main())
