"""Commands about earlier runs, with a scripted API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_api import JOB_ID, CannedAnswer, FakeApi, Request, job, page, problem
from tests.unit.cli.conftest import Aitne

OTHER = "3b7a2e00-0000-4000-8000-000000000002"
TAKEN: dict[str, Any] = {
    "taken_at": "2026-03-01T12:00:00Z",
    "workdir": "/home/ada/model\x1b[2J",
    "git": {
        "commit": "a" * 40,
        "branch": "main",
        "remote": "https://git.example.org/x.git",
        "dirty": True,
        "diff": "+lr = 0.1\n",
        "diff_bytes": 9_000_000,
        "diff_cut": True,
        "untracked": [f"n{number}" for number in range(12)],
    },
    "environment": {"path": "/v", "python": "3.12", "packages": {"torch": "2.13", "numpy": "2"}},
    "host": {"node": "n1", "system": "Debian", "kernel": None, "cpu": None, "gpu_driver": None},
    "notes": ["git took longer than 10 s"],
}
SNAPSHOT = {
    "attempt": 1,
    "taken": TAKEN,
    "image": "bare",
    "image_digest": None,
    "datasets": [{"name": "div2k", "version": "1"}],
    "modules": ["cuda/12"],
    "spec": {},
}


def task(index: int, state: str, **values: float) -> dict[str, Any]:
    return {
        "task": index,
        "job_id": OTHER,
        "state": state,
        "parameters": {"lr": 10.0**-index, "name": 'a,"b'},
        "values": values,
        "started_at": None,
        "ended_at": None,
    }


SWEEP = {
    "job_id": JOB_ID,
    "method": "grid",
    "parameters": ["lr", "name"],
    "metric": "accuracy",
    "goal": "max",
    "stop_when": None,
    "best": 1,
    "tasks": [
        task(0, "RUNNING"),
        task(1, "COMPLETED", accuracy=0.9, loss=0.1),
        task(2, "FAILED", accuracy=0.5),
    ],
}
RERUN: dict[str, Any] = {
    "possible": True,
    "problems": [],
    "changes": [{"kind": "code", "before": "a", "now": "b", "message": "It ran commit a."}],
    "notes": [],
}


def test_a_snapshot_in_facts_and_its_parts_as_programs_take_them(
    aitne: Aitne, api: FakeApi
) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{JOB_ID}/snapshot", SNAPSHOT)
    shown = aitne("snapshot", JOB_ID).out
    assert "a" * 40 in shown
    assert "\x1b" not in shown, "no folder's name moves the cursor"
    assert "n9 and 2 more" in shown
    assert "took longer" in shown
    assert aitne("snapshot", JOB_ID, "--packages").out == "numpy==2\ntorch==2.13\n"
    diff = aitne("snapshot", JOB_ID, "--diff")
    assert diff.out == "+lr = 0.1\n"
    assert "cut" in diff.err


def test_a_name_means_the_last_job_that_had_it(aitne: Aitne, api: FakeApi) -> None:
    def listed(request: Request) -> CannedAnswer:
        if request.query.get("state"):
            return page()
        return page(job("COMPLETED", name="digits"), job("FAILED", id=OTHER, name="digits"))

    api.on("GET", "/jobs", listed)
    api.on("GET", f"/jobs/{JOB_ID}/snapshot", SNAPSHOT)
    assert aitne("snapshot", "digits", "--json").json["attempt"] == 1


def test_a_sweep_is_shown_the_best_first_and_written_for_spreadsheets(
    aitne: Aitne, api: FakeApi
) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{JOB_ID}/sweep", SWEEP)
    lines = aitne("sweep", JOB_ID).out.splitlines()
    assert [line.split()[0] for line in lines] == ["TASK", "1", "2", "0"]
    assert lines[1].endswith("best")
    table = aitne("sweep", JOB_ID, "--csv").out.splitlines()
    assert table[0] == "task,job_id,state,lr,name,accuracy,loss"
    assert table[2] == f'1,{OTHER},COMPLETED,0.1,"a,""b",0.9,0.1'


def test_no_setting_of_a_sweep_is_a_formula_in_a_spreadsheet(aitne: Aitne, api: FakeApi) -> None:
    task = {**SWEEP["tasks"][0], "parameters": {"lr": -0.5, "name": "=cmd|' /C calc'!A0"}}
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{JOB_ID}/sweep", {**SWEEP, "tasks": [task]})
    row = aitne("sweep", JOB_ID, "--csv").out.splitlines()[1]
    assert row.endswith(",-0.5,'=cmd|' /C calc'!A0")


def test_the_rest_of_a_sweep_is_stopped_only_after_a_yes(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{JOB_ID}/sweep", SWEEP)
    api.on("POST", f"/jobs/{JOB_ID}/sweep/stop", job())
    assert aitne("sweep", JOB_ID, "--stop").status != 0
    assert not [each for each in api.requests if each.method == "POST"]
    assert aitne("sweep", JOB_ID, "--stop", "--yes").status == 0
    assert [each.path for each in api.requests if each.method == "POST"]


def test_before_a_job_is_run_again_the_changes_are_shown(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("COMPLETED"))
    api.on("GET", f"/jobs/{JOB_ID}/resubmit", RERUN)
    api.on("POST", f"/jobs/{JOB_ID}/resubmit", job("PENDING_SUBMIT", id=OTHER))
    done = aitne("resubmit", JOB_ID, "--yes")
    assert done.out == f"{OTHER}\n"
    assert "It ran commit a." in done.err


def test_job_with_retired_image_is_not_resubmitted(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("COMPLETED"))
    problem = {"field": "image", "message": "it is retired", "value": None, "allowed": None}
    api.on("GET", f"/jobs/{JOB_ID}/resubmit", {**RERUN, "possible": False, "problems": [problem]})
    done = aitne("resubmit", JOB_ID, "--yes")
    assert done.status != 0
    assert "it is retired" in done.err
    assert not [each for each in api.requests if each.method == "POST"]


def test_two_runs_and_only_what_differs(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{OTHER}", job(id=OTHER))
    run = {"id": JOB_ID, "name": "x", "array_task_id": None}
    rows = [
        {"field": "memory_max_bytes", "a": 1 << 30, "b": None, "equal": False, "unit": "bytes"},
        {"field": "dirty", "a": True, "b": True, "equal": True, "unit": None},
    ]
    found = {"a": run, "b": run, "differences": 1, "sections": [{"key": "use", "rows": rows}]}
    api.on("GET", f"/jobs/{JOB_ID}/compare/{OTHER}", found)
    shown = aitne("compare", JOB_ID, OTHER).out
    assert "1 GiB" in shown
    assert "dirty" not in shown
    assert "dirty" in aitne("compare", JOB_ID, OTHER, "--all").out


def test_a_session_is_continued(aitne: Aitne, api: FakeApi) -> None:
    old = job("TIMED_OUT", type="session")
    made = job("PENDING_SUBMIT", type="session", id=OTHER, continues=JOB_ID)
    api.on("GET", f"/jobs/{JOB_ID}", old)
    api.on("POST", f"/sessions/{JOB_ID}/continue", made)
    done = aitne("session", "continue", JOB_ID, "--yes", "--json")
    assert done.json["continues"] == JOB_ID
    assert "continues" in done.err
    (sent,) = [each for each in api.requests if each.method == "POST"]
    assert {name.lower() for name in sent.headers} >= {"idempotency-key"}


def test_a_continued_session_that_is_waited_for_and_fails_is_a_failure(
    aitne: Aitne, api: FakeApi
) -> None:
    made = job("FAILED", type="session", id=OTHER, continues=JOB_ID, message="No node has room.")
    api.on("GET", f"/jobs/{JOB_ID}", job("TIMED_OUT", type="session"))
    api.on("GET", f"/jobs/{OTHER}", made)
    api.on("POST", f"/sessions/{JOB_ID}/continue", made)
    done = aitne("session", "continue", JOB_ID, "--yes", "--wait")
    assert done.status == 1
    assert "No node has room." in done.err


@pytest.mark.parametrize("has_array_ids", [True, False], ids=["new", "before_0.2"])
def test_tasks_of_a_sweep_are_compared_by_their_numbers(
    aitne: Aitne, api: FakeApi, *, has_array_ids: bool
) -> None:
    array = job("COMPLETED", name="grid", array="0-1", id="0008e66b-0000-4000-8000-000000000000")
    stem = array["id"][:-1] if has_array_ids else OTHER[:-1]
    tasks = [
        job("COMPLETED", id=f"{stem}{n + 1}", array_job_id=array["id"], array_task_id=n)
        for n in (0, 1)
    ]

    def listed(request: Request) -> CannedAnswer:
        if "array_job_id" in request.query:
            return page(*tasks)
        return page(array) if request.query.get("q") == ["grid"] else page()

    api.on("GET", "/jobs", listed)
    for number in range(10):
        gone = problem(404, "not_found", "There is no such job.")
        api.on("GET", f"/jobs/{array['id'][:-1]}{number}", gone)
    if has_array_ids:
        for task in tasks:
            api.on("GET", f"/jobs/{task['id']}", task)
    first, second = (each["id"] for each in tasks)
    run = {"id": first, "name": "grid", "state": "COMPLETED", "array_task_id": 0}
    found = {"a": run, "b": run, "sections": [], "differences": 0}
    api.on("GET", f"/jobs/{first}/compare/{second}", found)
    assert aitne("compare", "grid_0", "grid_1").status == 0
    lists = [each for each in api.requests if "array_job_id" in each.query]
    assert bool(lists) is not has_array_ids
    for missing in ("grid_7", "nothing_1"):
        assert f"The job {missing} does not exist" in aitne("compare", "grid_0", missing).err


def test_beginning_of_the_id_of_an_array_means_the_array(aitne: Aitne, api: FakeApi) -> None:
    array = job("RUNNING", array="0-9", id="0008e66b-0000-4000-8000-000000000000")
    task = job("QUEUED", id=f"{array['id'][:-1]}5", array_job_id=array["id"], array_task_id=4)

    def listed(request: Request) -> CannedAnswer:
        if "q" in request.query:
            return page()
        return page(array) if request.query.get("top_level") else page(task, array)

    api.on("GET", "/jobs", listed)
    api.on("GET", f"/jobs/{task['id']}", task)
    for text, end in (("0008e66b", array), ("0008e66b_4", task)):
        api.on("POST", f"/jobs/{end['id']}/cancel", end)
        assert aitne("stop", text, "--yes").err.startswith(text)


def test_show_explains_a_failure_and_names_the_command_that_helps(
    aitne: Aitne, api: FakeApi
) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("OUT_OF_MEMORY", message="Ended."))
    failure = {
        "cause": "out_of_memory",
        "text": "It used more memory than the 1 GiB that it had requested.",
        "line": {"text": "oom-kill\x1b[2J", "offset": 7},
        "remedies": [{"kind": "resubmit", "memory_bytes": 2 << 30, "max_duration_s": None}],
    }
    api.on("GET", f"/jobs/{JOB_ID}/failure", {"failure": failure})
    shown = " ".join(aitne("show", JOB_ID).out.split())
    assert "Why It used more memory than the 1 GiB that it had requested. Log oom-kill" in shown
    assert "\x1b" not in shown
    assert "aitne resubmit 3b7a1f00 --memory 2G" in shown
    assert aitne("show", JOB_ID, "--json").json["failure"] == failure
