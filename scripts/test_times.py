"""Measure the phases of a test run, and print their times and the slowest tests.

    test_times.py run PHASE COMMAND …    run a command as a phase
    test_times.py report [--slowest 50]  tables of the recorded phases and of the slowest tests

The record is the folder ``test-results`` of the checkout; ``make test`` starts a new one and writes it,
``make test-times`` prints it. Phases need nothing but Python's standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
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


def slowest_table(tests: list[TestRecord], count: int) -> list[str]:
    """Return a Markdown table of the tests that took longest, set-up and teardown included."""
    lines = ["| test | set-up s | call s | teardown s |", "|---|---:|---:|---:|"]
    tests = sorted(tests, key=lambda test: -(test.setup_s + test.call_s + test.teardown_s))
    return lines + [
        f"| {test.node_id.removeprefix('tests/')} "
        f"| {test.setup_s:.1f} | {test.call_s:.1f} | {test.teardown_s:.1f} |"
        for test in tests[:count]
    ]


def report(count: int) -> int:
    """Print both tables; return 1 if there is no record."""
    sys.path.insert(0, str(ROOT))
    from tests.plugins.results import read_records

    try:
        lines = (RESULTS / PHASES).read_text().splitlines()
    except FileNotFoundError:
        print("No test run is recorded here. Run: make test", file=sys.stderr)
        return 1
    phases = [PhaseRecord(**json.loads(line)) for line in lines]
    tests = read_records(RESULTS)
    print("\n".join([*phase_table(phases, tests), "", *slowest_table(tests, count)]))
    return 0


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run a command as a phase")
    run.add_argument("phase")
    run.add_argument("command", nargs=argparse.REMAINDER)
    tables = verbs.add_parser("report", help="print where the time went")
    tables.add_argument("--slowest", type=int, default=50, help="how many tests to list")
    options = parser.parse_args()
    if options.verb == "report":
        return report(options.slowest)
    return run_phase(options.phase, options.command)


if __name__ == "__main__":
    sys.exit(main())
