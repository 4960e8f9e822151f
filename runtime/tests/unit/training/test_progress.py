"""Tests of the notifications about exchange steps."""

from __future__ import annotations

from aitne_train.progress import StepProgress


def test_steps_are_told_only_while_that_is_wanted() -> None:
    told: list[tuple[int, int]] = []
    progress = StepProgress(lambda channel, step: told.append((channel, step)))
    progress.begin(1, 7)
    progress.begin(2, 3)
    progress.begin(1, 8)
    assert told == []
    progress.want(True)
    assert told == [(1, 8), (2, 3)]
    assert progress.reporting
    progress.want(False)
    progress.begin(2, 4)
    assert len(told) == 2
    progress.report()
    assert told[2:] == [(1, 8), (2, 4)]
