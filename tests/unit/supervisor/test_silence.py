"""Detection of hung processes."""

from __future__ import annotations

import subprocess
import sys

from aitne.supervisor.hang_detector import HangDetector
from aitne.supervisor.progress_detector import ProgressWatch
from tests.support.waiting import eventually


class Clock:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def probes(
    silence: HangDetector, clock: Clock, answers: bool, *, seconds: float, works: bool = True
) -> None:
    """Probe every three seconds for so long."""
    for _ in range(int(seconds / 3)):
        clock.now += 3.0
        silence.record_probe(answers, has_progressed=works)


def test_process_is_hung_after_thirty_seconds_without_an_answer() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    silence.record_probe(True)
    probes(silence, clock, False, seconds=27)
    assert not silence.is_hung
    probes(silence, clock, False, seconds=3)
    assert silence.is_hung


def test_answer_ends_the_silence() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    silence.record_probe(True)
    probes(silence, clock, False, seconds=27)
    silence.record_probe(True)
    probes(silence, clock, False, seconds=27)
    assert not silence.is_hung


def test_slow_start_is_waited_for_but_not_for_ever() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    probes(silence, clock, False, seconds=297)
    assert not silence.is_hung
    probes(silence, clock, False, seconds=3)
    assert silence.is_hung


def test_process_that_does_nothing_during_its_start_is_hung_after_45_seconds() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    probes(silence, clock, False, seconds=42, works=False)
    silence.record_probe(False, has_progressed=True)
    probes(silence, clock, False, seconds=42, works=False)
    assert not silence.is_hung
    probes(silence, clock, False, seconds=3, works=False)
    assert silence.is_hung


def test_process_works_while_it_or_a_descendant_uses_a_cpu() -> None:
    sleeper = "import sys; print(flush=True); sys.stdin.readline(); sum(range(9)); print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", sleeper]
    shell = ["sh", "-c", 'echo; "$@"; true', "sh", *argv]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        watch = ProgressWatch(process.pid)
        assert watch.has_progressed()
        eventually("it sleeps", lambda: not watch.has_progressed())
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert watch.has_progressed()
        process.stdin.close()


def test_time_without_the_supervisor_does_not_count() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    silence.record_probe(True)
    clock.now += 3_600
    silence.record_probe(False)
    assert not silence.is_hung
    probes(silence, clock, False, seconds=21)
    assert not silence.is_hung
