"""When a process counts as hung."""

from __future__ import annotations

from aitne.supervisor.silence import HangDetector


class Clock:
    """A monotonic clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def probes(silence: HangDetector, clock: Clock, answers: bool, *, seconds: float) -> None:
    """Probe every three seconds for so long."""
    for _ in range(int(seconds / 3)):
        clock.now += 3.0
        silence.note(answers)


def test_process_is_hung_after_thirty_seconds_without_an_answer() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    silence.note(True)
    probes(silence, clock, False, seconds=27)
    assert not silence.hung
    probes(silence, clock, False, seconds=3)
    assert silence.hung


def test_answer_ends_the_silence() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    silence.note(True)
    probes(silence, clock, False, seconds=27)
    silence.note(True)
    probes(silence, clock, False, seconds=27)
    assert not silence.hung


def test_slow_start_is_waited_for_but_not_for_ever() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    probes(silence, clock, False, seconds=297)
    assert not silence.hung
    probes(silence, clock, False, seconds=3)
    assert silence.hung


def test_time_without_the_supervisor_does_not_count() -> None:
    clock = Clock()
    silence = HangDetector(30.0, clock)
    silence.note(True)
    clock.now += 3_600
    silence.note(False)
    assert not silence.hung
    probes(silence, clock, False, seconds=21)
    assert not silence.hung
