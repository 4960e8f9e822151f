"""Tests of the notifications about exchange steps."""

from __future__ import annotations

from aitne_train.exchange_step_progress import StepProgress


def test_steps_are_told_only_while_that_is_wanted() -> None:
    told: list[tuple[int, int]] = []
    progress = StepProgress(lambda channel, step: told.append((channel, step)))
    progress.begin_step(1, 7)
    progress.begin_step(2, 3)
    progress.begin_step(1, 8)
    assert told == []
    progress.set_reporting(True)
    assert told == [(1, 8), (2, 3)]
    assert progress.reporting
    progress.set_reporting(False)
    progress.begin_step(2, 4)
    assert len(told) == 2
    progress.report_steps()
    assert told[2:] == [(1, 8), (2, 4)]
