"""Tests of the platform's reason for the end of a rank group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aitne.notebook.session_rank_groups import SessionRanks
from aitne_train.notebook import rank_group_connection_files
from aitne_train.notebook.rank_groups import RanksError
from tests.support.fake_api import JOB_ID, Answer, FakeApi, event, job, page, problem, serve, sse

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


def session_variables(url: str, home: Path) -> dict[str, str]:
    """Return the environment variables of a notebook in a session of the platform at ``url``."""
    return {
        **os.environ,
        "AITNE_URL": url,
        "AITNE_TOKEN": "secret",
        "AITNE_SESSION": SESSION,
        "IPYTHONDIR": str(home),
        "HOME": str(home),
    }


def test_reason_of_an_end_is_waited_for(ranks: SessionRanks, api: FakeApi) -> None:
    """Ranks end before the scheduler reports why: at their time limit, or when they are preempted."""
    ended = job("TIMED_OUT", version=2, message=LIMIT)
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"), ended)
    api.on("GET", "/events", sse(event(8)))
    assert ranks.explain_end(JOB_ID, wait_s=60) == LIMIT


def test_reason_is_not_waited_for_where_none_can_follow(ranks: SessionRanks, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"))
    assert ranks.explain_end(JOB_ID) is None
    assert ranks.explain_end(SESSION, wait_s=60) is None, "a session continues without its ranks"
    assert [request.path for request in api.requests] == [f"/jobs/{JOB_ID}"]


def test_platform_that_does_not_answer_hides_no_error(ranks: SessionRanks, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("RUNNING"))
    api.on("GET", "/events", sse())
    assert ranks.explain_end(JOB_ID, wait_s=0.1) is None


def test_wait_survives_a_restart_of_the_platform_and_says_so_once(
    ranks: SessionRanks, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = rank_group_connection_files.locate_groups_folder() / JOB_ID
    away = problem(500, "unavailable", "The platform does not answer.")

    def started(_: object) -> Answer:
        rank_group_connection_files.create_folder(folder)
        rank_group_connection_files.write_status(
            folder, rank_group_connection_files.Status(JOB_ID, SESSION, "ready", 2, 2)
        )
        return away

    api.on("GET", f"/jobs/{JOB_ID}", job("QUEUED", message="Waits for 2 CPUs."), away, started)
    api.on("GET", "/events", sse(event(8)))
    said: list[str] = []
    assert ranks.wait_for_group(JOB_ID, said.append) == folder
    assert said == [
        "Queued. Waits for 2 CPUs.",
        "The platform does not answer. Waiting for the ranks continues.",
    ]


def test_group_that_ended_while_the_platform_was_away_is_reported(
    ranks: SessionRanks, api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    away = problem(500, "unavailable", "The platform does not answer.")
    api.on("GET", f"/jobs/{JOB_ID}", away, job("TIMED_OUT", message=LIMIT))
    with pytest.raises(RanksError, match=LIMIT):
        ranks.wait_for_group(JOB_ID, lambda text: None)


def test_group_whose_request_was_interrupted_is_found(ranks: SessionRanks, api: FakeApi) -> None:
    released = job("QUEUED", id="22222222-0000-4000-8000-000000000002", cancel_requested=True)
    api.on("GET", f"/sessions/{SESSION}/ranks", page(released, job("QUEUED")), page(released))
    assert ranks.find_starting() == JOB_ID
    assert ranks.find_starting() is None


def test_expected_start_is_shown_in_local_time(ranks: SessionRanks, api: FakeApi) -> None:
    start = datetime(2031, 1, 2, 19, 2, tzinfo=UTC)
    waits = "Waits for 2 CPUs: 1 of 2 is free."
    api.on(
        "GET",
        f"/jobs/{JOB_ID}",
        job("QUEUED", message=waits, expected_start_at=start.isoformat()),
        job("CANCELLED", message="Released.", version=2),
    )
    api.on("GET", "/events", sse(event(8)))
    said: list[str] = []
    with pytest.raises(RanksError, match="Released"):
        ranks.wait_for_group(JOB_ID, said.append)
    assert said == [f"Queued. {waits} Expected start: {start.astimezone():%Y-%m-%d %H:%M %Z}."]


REFUSED = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "%load_ext aitne.notebook",
    "%ranks start 3 --nodes 2",
    "%ranks",
    "import aitne, threading",
    "aitne.Client().jobs.create({'commands': ['true']})",
    "aitne.submit(len, threading.Lock())",
):
    shell.run_cell(cell)
"""


def test_refusals_are_one_sentence_in_a_notebook(api: FakeApi, tmp_path: Path) -> None:
    field = {"field": "nodes", "message": "3 ranks on 2 nodes", "allowed": "1, 3 nodes"}
    refusal = problem(422, "invalid_input", "nodes: 3 ranks on 2 nodes", field)
    api.on("POST", f"/sessions/{SESSION}/ranks", refusal)
    api.on("GET", f"/jobs/{SESSION}", job("RUNNING"))
    api.on("GET", f"/sessions/{SESSION}/ranks", page())
    api.on("POST", "/jobs", problem(422, "invalid_input", "nodes: no GPU"))
    with serve(api) as url:
        done = subprocess.run(
            [sys.executable, "-u", "-c", REFUSED],
            env=session_variables(url, tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    shown = (done.stdout + done.stderr).splitlines()
    assert shown[:2] == ["InvalidInput: nodes: 3 ranks on 2 nodes", "  nodes: allowed: 1, 3 nodes"]
    assert shown[2].startswith("RanksError: No ranks are attached")
    assert shown[3] == "InvalidInput: nodes: no GPU"
    assert shown[4].startswith("InvalidInput: args[0] (_thread.lock)")
    assert len(shown) == 5, shown


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
            env=session_variables(url, tmp_path),
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
