"""Tests of the platform's reason for the end of a rank group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.notebook.groups import SessionRanks
from tests.support.fake_api import JOB_ID, FakeApi, event, job, serve, sse

SESSION = "11111111-0000-4000-8000-000000000001"
LIMIT = "The time limit of 2h was reached."


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def ranks(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionRanks]:
    """The ranks of a session whose platform is ``api``."""
    with serve(api) as url:
        monkeypatch.setenv("AITNE_URL", url)
        monkeypatch.setenv("AITNE_TOKEN", "secret")
        yield SessionRanks({"AITNE_SESSION": SESSION, "AITNE_TOKEN": "secret"})


def test_reason_of_an_end_is_waited_for(ranks: SessionRanks, api: FakeApi) -> None:
    """Ranks end before the scheduler reports why: at their time limit, or when they are preempted."""
    ended = job("TIMED_OUT", version=2, message=LIMIT)
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"), ended)
    api.on("GET", "/events", sse(event(8)))
    assert ranks.why_ended(JOB_ID, wait_s=60) == LIMIT


def test_reason_is_not_waited_for_where_none_can_follow(ranks: SessionRanks, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"))
    assert ranks.why_ended(JOB_ID) is None
    assert ranks.why_ended(SESSION, wait_s=60) is None, "a session continues without its ranks"
    assert [request.path for request in api.requests] == [f"/jobs/{JOB_ID}"]


def test_platform_that_does_not_answer_hides_no_error(ranks: SessionRanks, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"))
    api.on("GET", "/events", sse())
    assert ranks.why_ended(JOB_ID, wait_s=0.1) is None


NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in ("%load_ext aitne.notebook", "kept = 41", "%ranks start 2", "print('kept', kept)"):
    shell.run_cell(cell)
"""


def test_wait_for_ranks_that_are_pending_can_be_interrupted(api: FakeApi, tmp_path: Path) -> None:
    api.on("POST", f"/sessions/{SESSION}/ranks", job("QUEUED", message="No node is idle."))
    api.on("GET", f"/jobs/{JOB_ID}", job("QUEUED", message="No node is idle."))
    api.on("GET", "/events", *[sse(event(number)) for number in range(8, 400)])
    with serve(api) as url:
        kernel = subprocess.Popen(
            [sys.executable, "-u", "-c", NOTEBOOK],
            env={
                **os.environ,
                "AITNE_URL": url,
                "AITNE_TOKEN": "secret",
                "AITNE_SESSION": SESSION,
                "IPYTHONDIR": str(tmp_path),
                "HOME": str(tmp_path),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert kernel.stdout is not None
        printed = ""
        while "No node is idle." not in printed:
            printed += kernel.stdout.read(1)
            assert kernel.poll() is None, printed
        kernel.send_signal(signal.SIGINT)
        printed += kernel.communicate(timeout=30)[0]
    assert "The ranks stay in the queue." in printed
    assert "kept 41" in printed
    assert not [request for request in api.requests if request.method == "DELETE"]
