"""Tests of the bucket size that autotuning finds, and of the steps that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne_train.bucket_size_autotune import CANDIDATES, SAMPLES, Autotune


def _run(tuner: Autotune, seconds: dict[int, float]) -> int:
    steps = 0
    while not tuner.tried_all:
        tuner.record_step(seconds[tuner.cap])
        steps += 1
    return steps


def test_autotune_ends_after_known_steps_with_fastest_size(
    tmp_path: Path,
) -> None:
    log = tmp_path / "autotune.csv"
    tuner = Autotune(steps=10, warmup=3, log=log)
    seconds = dict.fromkeys(CANDIDATES, 0.05) | {CANDIDATES[2]: 0.04}
    assert _run(tuner, seconds) == 10 * (3 + len(CANDIDATES) * (1 + SAMPLES)) == 210
    assert tuner.choose_cap([tuner.best]) == CANDIDATES[2]
    lines = log.read_text().splitlines()
    assert lines[0] == "sample,bytes,seconds_per_step,counts"
    assert lines[-1] == f"chosen,{CANDIDATES[2]},0.040000000,1"
    assert len(lines) == 1 + 21 + 1


def test_the_slowest_rank_decides() -> None:
    tuner = Autotune(1, 0, None, candidates=[1, 2, 3])
    assert tuner.choose_cap([[0.1, 0.2, 0.3], [0.9, 0.2, 0.1]]) == 2


def test_a_rank_that_measured_nothing_has_no_say() -> None:
    nothing = float("inf")
    tuner = Autotune(1, 0, None, candidates=[1, 2])
    assert tuner.choose_cap([[0.2, 0.1], [nothing, nothing]]) == 2


def test_the_environment_asks_for_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    asked = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": str(log)}
    assert Autotune.from_environment({}, 0) is None
    assert Autotune.from_environment({**asked, "HOROVOD_FUSION_THRESHOLD": "1024"}, 0) is None
    assert Autotune.from_environment(asked, 1) is not None
    assert not log.exists()
    tuner = Autotune.from_environment({**asked, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "2"}, 0)
    assert tuner is not None
    assert log.exists()
    assert [tuner.record_step(0.1) for _ in range(8)] == [False] * 8
    with pytest.raises(ValueError, match="step"):
        Autotune.from_environment({**asked, "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "0"}, 0)
