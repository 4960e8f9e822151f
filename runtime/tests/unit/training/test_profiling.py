"""A profile while the run goes on, and what is left of it."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from aitne_train import profiler
from aitne_train.profile_report import format_prometheus, format_table, load_profile, main
from aitne_train.profiler import Profiler, find_profile_folder
from aitne_train.record_ring import RecordRing
from tests.support.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "assets" / "profile.json"


def run_of_two(folder: Path, interval_s: float = 60.0) -> tuple[list[RecordRing], list[Profiler]]:
    rings = [RecordRing(), RecordRing()]
    first = Profiler(rings[0], 0, (0, 0), lambda _: None, folder, interval_s)
    second = Profiler(
        rings[1], 1, (0, 0), lambda sent: first.store_totals(1, sent), folder, interval_s
    )
    for each in (first, second):
        each.start()
    return rings, [first, second]


def work(ring: RecordRing, steps: int) -> None:
    for _ in range(steps):
        now = time.monotonic_ns()
        ring.add("allreduce", 1 << 20, 2, now - 1000, now)
        ring.step()


def test_the_file_holds_what_every_rank_did_until_the_end(tmp_path: Path) -> None:
    rings, profilers = run_of_two(tmp_path)
    work(rings[0], 5)
    work(rings[1], 5)
    profilers[1].close()
    profilers[0].close()
    found = load_profile(tmp_path / "profile.json")
    assert found["final"] is True
    assert found["steps"] == 4
    assert [row["records"] for row in found["ranks"]] == [5, 5]
    assert [(row["op"], row["count"], row["bytes"]) for row in found["table"]] == [
        ("allreduce", 5, 5 << 20)
    ]
    trace = json.loads((tmp_path / "profile.trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in trace].count("allreduce") == 5
    assert sorted(os.listdir(tmp_path)) == ["profile.json", "profile.trace.json"]


def test_the_file_is_there_while_the_run_goes_on(tmp_path: Path) -> None:
    rings, profilers = run_of_two(tmp_path, interval_s=0.02)
    file = tmp_path / "profile.json"
    work(rings[0], 3)
    eventually(
        "the first rank's profile is written",
        lambda: file.exists() and load_profile(file)["ranks"][0]["records"] == 3,
    )
    work(rings[1], 7)
    eventually(
        "both ranks' profiles are written",
        lambda: [row["records"] for row in load_profile(file)["ranks"]] == [3, 7],
    )
    assert load_profile(file)["final"] is False
    for each in profilers:
        each.close()


@pytest.mark.timeout(30)
def test_rank_0_does_not_wait_for_a_rank_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiler, "LAST_WORDS_S", 3600.0)
    rings, profilers = run_of_two(tmp_path)
    work(rings[0], 2)
    profilers[0].record_lost_rank(1)
    profilers[0].close()
    profilers[1].close()
    assert [row["rank"] for row in load_profile(tmp_path / "profile.json")["ranks"]] == [0]


def test_a_rank_whose_rank_0_is_gone_goes_on(tmp_path: Path) -> None:
    def gone(_payload: dict[str, Any]) -> None:
        raise ConnectionResetError

    ring = RecordRing()
    profiler = Profiler(ring, 1, (0, 0), gone, tmp_path, 0.01)
    profiler.start()
    work(ring, 1)
    profiler.close()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    rings, profilers = run_of_two(tmp_path / "taken", interval_s=0.01)
    work(rings[0], 2)
    for each in reversed(profilers):
        each.close()
    said = capsys.readouterr().err
    assert said.count("no profile is kept of this run") == 1
    assert str(tmp_path / "taken") in said


def test_threads_end_with_the_profile(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    _rings, profilers = run_of_two(tmp_path)
    for each in reversed(profilers):
        each.close()
    assert set(threading.enumerate()) == before


def test_profiles_go_where_they_are_wanted() -> None:
    assert find_profile_folder({}) is None
    assert find_profile_folder({"AITNE_RUN_DIR": "/run"}) == Path("/run")
    assert find_profile_folder({"AITNE_RUN_DIR": "/run", "AITNE_PROFILE": "/mine"}) == Path("/mine")


def test_prints_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(EXAMPLE)]) == 0
    printed = capsys.readouterr().out
    assert printed == format_table(load_profile(EXAMPLE)) + "\n"
    lines = printed.splitlines()
    heading = next(line for line in lines if line.startswith("operation"))
    assert heading.split()[:5] == ["operation", "message", "size", "count", "bytes"]
    assert any("16 MiB - 32 MiB" in line for line in lines)
    assert any(line.startswith("straggler       rank 3 on node 1") for line in lines)


def test_a_file_of_another_kind_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content, words in (
        ("{", "is not JSON"),
        ("[]", "schema None"),
        ('{"schema": 2}', "schema 2"),
    ):
        (tmp_path / "file").write_text(content)
        assert main([str(tmp_path / "file")]) == 1
        assert words in capsys.readouterr().err
    assert main([str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_prometheus_reads_the_same_numbers() -> None:
    profile = load_profile(EXAMPLE)
    text = format_prometheus(profile, {"job": 'a"b'})
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert f'aitne_distrib_steps_total{{job="a\\"b"}} {profile["steps"]}' in samples
    counts = [line for line in samples if line.startswith("aitne_distrib_collectives_total")]
    assert sum(int(line.rpartition(" ")[2]) for line in counts) == sum(
        row["count"] for row in profile["table"]
    )
    kinds = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))
