"""Horovod's timeline: its events, in a file that is JSON whenever one looks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aitne_train.timeline import (
    TIMELINE,
    Timeline,
    name_execution,
    name_negotiation,
    start_from_environment,
    start_timeline,
    stop_timeline,
)
from tests.support.waiting import eventually


def read(path: Path) -> list[dict[str, Any]]:
    with path.open("rb", buffering=0) as file:
        # With one system call: between two the file may have grown past the end of its list.
        found: list[dict[str, Any]] = json.loads(file.read(1 << 24))
    return found


def allreduce(timeline: Timeline, name: str) -> None:
    row = f"allreduce.{name}"
    timeline.record_ready(row, name_negotiation("allreduce"), 0)
    timeline.record_ready(row, name_negotiation("allreduce"), 1)
    timeline.record_agreement(row)
    timeline.begin_event(row, name_execution("allreduce"))
    timeline.begin_event(row, "MEMCPY_IN_FUSION_BUFFER")
    timeline.end_event(row)
    timeline.end_event(row, dtype="float32", shape=(10,))


def test_a_tensor_is_a_row_with_horovods_events(tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.start(tmp_path / "file", mark_cycles=True)
    timeline.mark_cycle()
    allreduce(timeline, "a")
    allreduce(timeline, "b")
    timeline.stop()
    events = read(tmp_path / "file")
    assert "start_time_since_epoch_in_micros" in events[0]["args"]
    rows = {
        e["args"]["name"]: e["pid"] for e in events if e.get("name") == "process_name" and e["pid"]
    }
    assert rows == {"allreduce.a": 1, "allreduce.b": 2}
    assert {"ph", "name", "ts", "s"} == set(
        next(e for e in events if e.get("name") == "CYCLE_START")
    )
    of_b = [e for e in events if e.get("pid") == 2 and e["ph"] != "M"]
    assert [(e["ph"], e.get("name")) for e in of_b] == [
        ("B", "NEGOTIATE_ALLREDUCE"),
        ("X", "0"),
        ("X", "1"),
        ("E", None),
        ("B", "ALLREDUCE"),
        ("B", "MEMCPY_IN_FUSION_BUFFER"),
        ("E", None),
        ("E", None),
    ]
    assert of_b[-1]["args"] == {"dtype": "float32", "shape": "[10]"}
    assert [e["ts"] for e in of_b] == sorted(e["ts"] for e in of_b)


def test_the_file_is_json_while_it_grows(tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.start(tmp_path / "file")
    assert len(read(tmp_path / "file")) == 2
    for number in range(3):
        allreduce(timeline, f"{number}")
        expected = 2 + 10 * (number + 1)
        eventually("all lines are there", lambda: len(read(tmp_path / "file")) == expected)  # noqa: B023
    timeline.mark_cycle()
    timeline.stop()
    assert len(read(tmp_path / "file")) == 32, "cycles were not asked for"


def test_the_file_is_json_after_the_program_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    program = (
        "import sys, time; from pathlib import Path; from aitne_train.timeline import Timeline\n"
        "timeline = Timeline(); timeline.start(Path(sys.argv[1]))\n"
        "while True:\n"
        "    timeline.begin_event('allreduce.x', 'ALLREDUCE'); timeline.end_event('allreduce.x'); time.sleep(1e-4)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)])
    try:
        eventually("the file grows", lambda: path.exists() and path.stat().st_size > 100_000)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert read(path)[-1]["pid"] == 1


def test_a_second_file_begins_anew(tmp_path: Path) -> None:
    timeline = Timeline()
    timeline.start(tmp_path / "one")
    allreduce(timeline, "a")
    timeline.start(tmp_path / "two")
    allreduce(timeline, "b")
    timeline.stop()
    assert len(read(tmp_path / "one")) == len(read(tmp_path / "two")) == 12
    assert not timeline.on


def of_rows(path: Path) -> list[tuple[str, str | None]]:
    return [(e["ph"], e.get("name")) for e in read(path) if e["ph"] != "M"]


def test_events_nest_in_a_file_that_begins_amid_a_negotiation(tmp_path: Path) -> None:
    timeline = Timeline()
    row, event = "allreduce.a", name_negotiation("allreduce")
    timeline.start(tmp_path / "one")
    timeline.record_ready(row, event, 1)
    timeline.start(tmp_path / "two")
    timeline.record_ready(row, event, 0)
    timeline.record_agreement(row)
    timeline.start(tmp_path / "three")
    timeline.record_agreement(row)
    timeline.stop()
    assert of_rows(tmp_path / "one") == [("B", event), ("X", "1")]
    assert of_rows(tmp_path / "two") == [("B", event), ("X", "0"), ("E", None)]
    assert of_rows(tmp_path / "three") == []


def test_events_are_not_recorded_while_timeline_is_off(tmp_path: Path) -> None:
    timeline = Timeline()
    allreduce(timeline, "a")
    timeline.start(tmp_path / "file")
    timeline.stop()
    assert len(read(tmp_path / "file")) == 2


def test_the_environment_says_where(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for rank, value in ((1, str(path)), (0, "DYNAMIC"), (0, "")):
        start_from_environment(rank, {"HOROVOD_TIMELINE": value})
        assert not TIMELINE.on
    start_from_environment(0, {"HOROVOD_TIMELINE": str(path), "HOROVOD_TIMELINE_MARK_CYCLES": "1"})
    assert TIMELINE.on
    assert TIMELINE.marks_cycles
    stop_timeline()
    assert len(read(path)) == 2


def test_a_program_may_start_it_where_the_environment_allows(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="HOROVOD_TIMELINE=DYNAMIC"):
        start_timeline(str(path), rank=0, environ={})
    start_timeline(str(path), rank=1, environ={"HOROVOD_TIMELINE": "DYNAMIC"})
    assert not path.exists()
    start_timeline(str(path), rank=0, environ={"HOROVOD_TIMELINE": "DYNAMIC"})
    allreduce(TIMELINE, "a")
    stop_timeline()
    assert len(read(path)) == 12


def test_a_file_that_cannot_be_written_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_from_environment(0, {"HOROVOD_TIMELINE": str(tmp_path / "no" / "file")})
    assert not TIMELINE.on
    assert "no timeline is written" in capsys.readouterr().err
