"""Tests of the agent's measure of activity in a session."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aitne.agent import activity, http_client


class Server:
    """A Jupyter server's answers, by path."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/api/kernels": [],
            "/api/terminals": [],
            "/lab/api/workspaces": {"workspaces": {"ids": [], "values": []}},
        }
        self.asked: list[tuple[str, str]] = []

    def request(
        self, method: str, url: str, *, token: str, timeout_s: float, context: None
    ) -> tuple[int, bytes]:
        path = url.removeprefix("http://127.0.0.1:9/user/ada/s").partition("?")[0]
        self.asked.append((path, token))
        found = self.answers.get(path)
        if isinstance(found, Exception):
            raise found
        return (404, b"") if found is None else (200, json.dumps(found).encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(http_client, "request", made.request)
    return made


def jupyter(root: Path) -> activity.Jupyter:
    return activity.Jupyter("http://127.0.0.1:9/user/ada/s", "secret", str(root))


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def test_the_youngest_kernel_or_terminal_counts(server: Server, tmp_path: Path) -> None:
    server.answers["/api/kernels"] = [
        {"execution_state": "idle", "last_activity": ago(500)},
        {"execution_state": "idle", "last_activity": ago(300)},
    ]
    assert jupyter(tmp_path).idle_s() == pytest.approx(300, abs=5)
    server.answers["/api/terminals"] = [{"name": "1", "last_activity": ago(20)}]
    assert jupyter(tmp_path).idle_s() == pytest.approx(20, abs=5)
    assert {token for _, token in server.asked} == {"secret"}


def test_a_busy_kernel_is_at_work_however_long_it_is_silent(server: Server, tmp_path: Path) -> None:
    server.answers["/api/kernels"] = [{"execution_state": "busy", "last_activity": ago(9_000)}]
    assert jupyter(tmp_path).idle_s() == 0.0


def test_an_open_document_that_is_saved_is_work(server: Server, tmp_path: Path) -> None:
    note = tmp_path / "notes" / "train.py"
    note.parent.mkdir()
    note.write_text("a")
    space = {
        "data": {
            "editor:notes/train.py": {"data": {"path": "notes/train.py", "factory": "Editor"}},
            "file-browser-filebrowser:cwd": {"path": ""},
            "notebook:gone.ipynb": {"data": {"path": "RTC:gone.ipynb", "factory": "Notebook"}},
        }
    }
    server.answers["/lab/api/workspaces"] = {"workspaces": {"ids": ["w"], "values": [space]}}
    seen = jupyter(tmp_path)
    assert seen.idle_s() is None  # the time before is unknown
    assert seen.idle_s() is None
    (tmp_path / "other.txt").write_text("a program's own file")
    assert seen.idle_s() is None
    # A file server's clock may be wrong by hours: that the time is another is what counts.
    os.utime(note, (1, 1))
    assert seen.idle_s() == 0.0
    assert seen.idle_s() is None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        OSError("gone"),
        http_client.InvalidResponseError("x"),
        {"a": 1},
        [1, None],
        [{"last_activity": "soon"}],
    ],
)
def test_unreadable_jupyter_answer_is_no_activity(
    server: Server, tmp_path: Path, answer: Any
) -> None:
    for path in server.answers:
        server.answers[path] = answer
    assert jupyter(tmp_path).idle_s() is None


class Meter:
    """Measures what it is told to."""

    def __init__(self) -> None:
        self.sample: dict[str, Any] = {"cpu": 0.01, "gpu": []}

    def open_gpus(self) -> None:
        pass

    def measure(self) -> dict[str, Any]:
        return self.sample


def watch(meter: Meter, found: activity.Jupyter | None = None) -> activity.ActivityWatch:
    made = activity.ActivityWatch(meter, lambda moment: None, 3_600, found)  # type: ignore[arg-type]
    made.active_at = time.monotonic() - 1_000
    return made


@pytest.mark.parametrize(
    ("sample", "busy"),
    [
        ({"cpu": 0.01, "gpu": []}, False),
        ({"cpu": 0.9, "gpu": []}, True),
        ({"cpu": 0.0, "gpu": [{"utilization": 0.0}, {"utilization": 0.5}]}, True),
        ({"cpu": 0.0, "gpu": [{"utilization": 0.0}]}, False),
    ],
)
def test_cpus_and_gpus_in_use_are_work(sample: dict[str, Any], busy: bool) -> None:
    meter = Meter()
    meter.sample = sample
    seen = watch(meter)
    before = seen.active_at
    seen.check_activity()
    assert (seen.active_at > before) is busy


def test_activity_time_is_never_moved_back(server: Server, tmp_path: Path) -> None:
    began = time.monotonic()
    server.answers["/api/kernels"] = [{"execution_state": "idle", "last_activity": ago(100)}]
    seen = watch(Meter(), jupyter(tmp_path))
    seen.check_activity()
    assert began - 101 <= seen.active_at <= time.monotonic() - 99
    server.answers["/api/kernels"] = []  # it was shut down
    before = seen.active_at
    seen.check_activity()
    assert seen.active_at == before
