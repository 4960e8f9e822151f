"""Every verb against a scripted API: what is asked, what stdout and stderr hold, the exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitne.client import platform_discovery
from tests.support.fake_api import (
    JOB_ID,
    Answer,
    CannedAnswer,
    ConnectionLost,
    FakeApi,
    Refused,
    Request,
    event,
    job,
    page,
    problem,
    sse,
)
from tests.unit.cli.conftest import Aitne

OTHER = "3b7a2e00-0000-4000-8000-000000000002"


def plan(**changes: Any) -> dict[str, Any]:
    spec = {
        key: value
        for key, value in job().items()
        if key in ("type", "name", "project", "template", "parameters", "image", "commands")
        or key in ("resources", "max_duration_s", "array", "workdir", "env", "template_version")
    }
    return {
        "spec": {**spec, **changes.pop("spec", {})},
        "fits": True,
        "starts_now": True,
        "pending_reason": None,
        "warnings": [],
        "script": "#!/bin/bash\ntrue\n",
        **changes,
    }


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "job.aitne.yml"
    path.write_text("name: digits\ncommands: [python train.py]\nresources:\n  cpu: 2\n")
    return str(path)


# --- ps ---------------------------------------------------------------------------------------


def test_ps_lists_live_jobs_and_the_last_that_ended(aitne: Aitne, api: FakeApi) -> None:
    def listed(request: Request) -> CannedAnswer:
        if "RUNNING" in request.query["state"]:
            return page(job("RUNNING", created_at="2026-11-21T03:00:00Z"))
        return page(job("COMPLETED", id=OTHER, created_at="2026-11-21T04:00:00Z"))

    api.on("GET", "/jobs", listed)
    done = aitne("ps", "--json")
    assert done.status == 0
    assert done.err == ""
    assert [item["state"] for item in done.json] == ["COMPLETED", "RUNNING"]
    assert api.requests[1].query["limit"] == ["10"]


def test_ps_all_is_every_job_as_the_api_orders_them(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page(job(name="new"), next_cursor="c"), page(job(name="old")))
    assert [item["name"] for item in aitne("ps", "--all", "--json").json] == ["new", "old"]
    assert "state" not in api.requests[0].query


def test_ps_draws_a_table_that_no_name_can_break(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page(job(name="evil\x1b[31m\nname 🚀")), page())
    out = aitne("ps").out
    assert "\x1b" not in out
    assert "evil\\x1b[31m\\nname 🚀" in out
    assert len(out.splitlines()) == 2


def test_ps_of_nothing(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page())
    assert (aitne("ps").out, aitne("ps", "--json").json) == ("", [])


def test_ps_filters(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page())
    aitne("ps", "--state", "failed", "--user", "ada", "--name", "x", "--type", "job")
    query = api.requests[0].query
    assert (query["state"], query["owner"], query["q"]) == (["FAILED"], ["ada"], ["x"])


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (problem(422, "invalid_input", "It is wrong."), 2),
        (problem(401, "not_authenticated", "Log in."), 3),
        (problem(403, "not_allowed", "Not yours."), 3),
        (problem(404, "not_found", "None."), 3),
        (problem(409, "conflict", "Not now."), 1),
        (problem(503, "unavailable", "Later."), 1),
        (problem(500, "internal", "A bug."), 1),
        (Refused, 1),
        (ConnectionLost, 1),
    ],
)
def test_exit_status_and_one_sentence(
    aitne: Aitne, api: FakeApi, answer: CannedAnswer, status: int
) -> None:
    api.on("GET", "/templates/x", answer)
    done = aitne("template", "show", "x")
    assert (done.status, done.out) == (status, "")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("aitne: ")
    as_json = aitne("template", "show", "x", "--json")
    assert as_json.json["error"]["message"] in done.err
    assert as_json.status == status


def test_field_problems_are_a_table_with_file_and_line(
    aitne: Aitne, api: FakeApi, job_file: str
) -> None:
    wrong = {
        "field": "resources.cpu",
        "message": "more than any node has",
        "value": "99",
        "allowed": "1 to 2",
    }
    api.on("POST", "/jobs:plan", problem(422, "invalid_input", "resources.cpu: too many", wrong))
    done = aitne("apply", "-f", job_file, "--yes", "--json")
    assert done.status == 2
    assert done.json["error"]["problems"] == [{**wrong, "line": 4}]
    assert f"resources.cpu ({job_file}:4)" in done.err
    assert "1 to 2" in done.err
    assert not api.sent("POST", "/jobs")


def test_a_mistake_of_ours_is_no_traceback_either(
    aitne: Aitne, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET", "/jobs", {"unexpected": True})
    done = aitne("ps")
    assert done.status == 1
    assert "AITNE_DEBUG=1" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("AITNE_DEBUG", "1")
    assert "Traceback" in aitne("ps").err


def test_interrupted(aitne: Aitne, api: FakeApi) -> None:
    def interrupt(request: Request) -> CannedAnswer:
        raise KeyboardInterrupt

    api.on("GET", "/jobs", interrupt)
    assert aitne("ps").status == 130
    assert aitne("ps", "--type", "job").status == 130


def test_no_platform_says_how_to_start_one(
    aitne: Aitne, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AITNE_URL")
    assert "aitne up" in aitne("ps").err
    assert "--detach" in aitne("--data-dir", str(tmp_path), "ps").err


# --- apply, plan ------------------------------------------------------------------------------


def test_apply_asks_and_a_no_stores_nothing(aitne: Aitne, api: FakeApi, job_file: str) -> None:
    api.on("POST", "/jobs:plan", plan())
    done = aitne("apply", "-f", job_file, typed="n\n")
    assert (done.status, done.out) == (1, "")
    assert "Start this job? [y/N]" in done.err
    assert not api.sent("POST", "/jobs")


def test_apply_without_a_terminal_needs_yes(aitne: Aitne, api: FakeApi, job_file: str) -> None:
    api.on("POST", "/jobs:plan", plan())
    done = aitne("apply", "-f", job_file)
    assert done.status == 2
    assert "--yes" in done.err


def test_apply_submits_what_the_file_says(aitne: Aitne, api: FakeApi, job_file: str) -> None:
    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", ConnectionLost, job("PENDING_SUBMIT"))
    done = aitne("apply", "-f", job_file, typed="y\n")
    assert done.status == 0
    assert done.out == f"{JOB_ID}\n"
    assert "python train.py" in done.err
    first, second = api.sent("POST", "/jobs")
    assert first.json == {
        "name": "digits",
        "commands": ["python train.py"],
        "resources": {"cpu": 2},
    }
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


def scripted_run(api: FakeApi, end: dict[str, Any]) -> None:
    queued = [
        {"key": "queued", "title": "Queued", "status": "current", "detail": "Waits for 2 CPUs."}
    ]
    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    api.on("GET", f"/jobs/{JOB_ID}", job("QUEUED", stages=queued), job("RUNNING", version=2), end)
    api.on("GET", "/events", sse(event(8), event(9)))
    headers = {"X-Log-Offset": "0", "X-Log-Size": "12"}
    rest = Answer(200, [], {"X-Log-Offset": "12", "X-Log-Size": "12"})
    api.on(
        "GET", f"/jobs/{JOB_ID}/logs", Answer(200, [b"loss 0.1\r\xff\n", b"ok\n"], headers), rest
    )


def test_apply_wait_follows_a_job_to_its_end(aitne: Aitne, api: FakeApi, job_file: str) -> None:
    scripted_run(api, job("COMPLETED", version=3, exit_code=0))
    done = aitne("apply", "-f", job_file, "--yes", "--wait")
    assert done.status == 0
    assert done.out.endswith("ok\n")
    assert "… Queued" in done.err
    assert "Waits for 2 CPUs." in done.err


def test_a_sweep_that_reached_its_goal_is_a_success(
    aitne: Aitne, api: FakeApi, job_file: str
) -> None:
    reached = "Task 3 reached the goal: accuracy 0.98 (goal: 0.9)."
    scripted_run(api, job("COMPLETED", version=3, reason="goal_reached", message=reached))
    done = aitne("apply", "-f", job_file, "--yes", "--wait")
    assert done.status == 0
    assert reached in done.err


def test_a_failed_job_is_status_1_with_its_reason(
    aitne: Aitne, api: FakeApi, job_file: str
) -> None:
    scripted_run(api, job("FAILED", version=3, exit_code=3, message="Command 1 ended with 3."))
    done = aitne("apply", "-f", job_file, "--yes", "--wait", "--json")
    assert done.status == 1
    assert done.json["state"] == "FAILED"
    assert "Command 1 ended with 3." in done.err
    assert "loss 0.1" in done.err


def test_leaving_a_followed_job_says_how_to_come_back(
    aitne: Aitne, api: FakeApi, job_file: str
) -> None:
    def interrupt(request: Request) -> CannedAnswer:
        raise KeyboardInterrupt

    api.on("POST", "/jobs:plan", plan())
    api.on("POST", "/jobs", job("PENDING_SUBMIT"))
    api.on("GET", f"/jobs/{JOB_ID}", interrupt)
    done = aitne("apply", "-f", job_file, "--yes", "--wait")
    assert done.status == 130
    assert "aitne watch 3b7a1f00" in done.err
    assert not api.sent("POST", f"/jobs/{JOB_ID}/cancel")


def test_job_that_can_never_start_is_refused(aitne: Aitne, api: FakeApi, job_file: str) -> None:
    api.on("POST", "/jobs:plan", plan(fits=False, pending_reason="no node has 99 CPUs"))
    done = aitne("apply", "-f", job_file, "--yes")
    assert done.status == 2
    assert "no node has 99 CPUs" in done.err
    assert not api.sent("POST", "/jobs")


def test_wait_and_detach_exclude_each_other(aitne: Aitne, job_file: str) -> None:
    assert aitne("apply", "-f", job_file, "--wait", "--detach").status == 2


def test_plan_shows_and_stores_nothing(aitne: Aitne, api: FakeApi, job_file: str) -> None:
    api.on("POST", "/jobs:plan", plan(starts_now=False, pending_reason="2 CPUs are in use"))
    assert "later: 2 CPUs are in use" in aitne("plan", "-f", job_file).out
    assert aitne("plan", "-f", job_file, "--script").out == "#!/bin/bash\ntrue\n"
    assert aitne("plan", "-f", job_file, "--json").json["fits"] is True
    assert {request.path for request in api.requests} == {"/jobs:plan"}


# --- logs, watch, stop ------------------------------------------------------------------------


def test_logs_prints_the_bytes(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    headers = {"X-Log-Offset": "0", "X-Log-Size": "5"}
    api.on("GET", f"/jobs/{JOB_ID}/logs", Answer(200, [b"a\nb\rc"], headers))
    assert aitne("logs", JOB_ID).out == "a\nb\rc"


def test_a_job_may_be_named_by_a_few_letters_or_its_name(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page(job(), job(id=OTHER, name="other")))
    api.on("GET", f"/jobs/{JOB_ID}/logs", b"x")
    for name in ("3b7a1", "3B7A1F00-0000", "digits"):
        assert aitne("logs", name).out == "x"


def test_a_name_for_several_lists_them(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page(job(), job(id=OTHER, name="other")))
    done = aitne("watch", "3b7a", "--json")
    assert done.status == 3
    assert "3b7a1f00" in done.err
    assert "3b7a2e00" in done.err
    assert len(done.json["error"]["candidates"]) == 2
    assert aitne("logs", "gone").status == 3


def test_attach_tells_a_sessions_address(aitne: Aitne, api: FakeApi) -> None:
    ready = job("READY", type="session", url="http://s.test/lab", version=2)
    api.on("GET", f"/jobs/{JOB_ID}", job("QUEUED", type="session"), ready)
    api.on("GET", "/events", sse())
    assert aitne("watch", JOB_ID).out == "http://s.test/lab\n"


def test_stop_asks_then_ends_jobs_and_sessions(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{OTHER}", job("READY", id=OTHER, type="session"))
    api.on("POST", f"/jobs/{JOB_ID}/cancel", job("COMPLETING"))
    api.on("POST", f"/sessions/{OTHER}/stop", job("COMPLETING", id=OTHER))
    assert aitne("stop", JOB_ID, OTHER, typed="\n").status == 1
    assert not api.sent("POST", f"/jobs/{JOB_ID}/cancel")
    done = aitne("stop", JOB_ID, OTHER, "--yes", "--json")
    assert [item["state"] for item in done.json] == ["COMPLETING", "COMPLETING"]


def test_stop_leaves_what_has_ended(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("COMPLETED"))
    assert aitne("stop", JOB_ID).status == 0
    assert len(api.requests) == 1


# --- sessions ---------------------------------------------------------------------------------


def test_session_start_wait_json_is_the_session(aitne: Aitne, api: FakeApi) -> None:
    parameter = {"name": "folder", "type": "string", "title": "Folder", "default": ""}
    count = {"name": "count", "type": "integer", "title": "Count", "default": 1}
    api.on("GET", "/templates/jupyterlab", {"name": "jupyterlab", "parameters": [parameter, count]})
    api.on("POST", "/jobs:plan", plan(spec={"type": "session"}))
    api.on("POST", "/sessions", job("PENDING_SUBMIT", type="session"))
    ready = job("READY", type="session", url="http://s.test/lab", version=2)
    api.on("GET", f"/jobs/{JOB_ID}", job("QUEUED", type="session"), ready)
    api.on("GET", "/events", sse())
    line = ["session", "start", "jupyterlab", "--cpu", "2", "-P", "folder=1", "-P", "count=3"]
    done = aitne(*line, "--yes", "--wait", "--json")
    assert done.status == 0
    assert (done.json["state"], done.json["url"]) == ("READY", "http://s.test/lab")
    assert api.sent("POST", "/sessions")[0].json == {
        "type": "session",
        "template": "jupyterlab",
        "resources": {"cpu": 2},
        "parameters": {"folder": "1", "count": 3},
    }


def test_a_session_that_fails_to_start_is_status_1(aitne: Aitne, api: FakeApi) -> None:
    api.on("POST", "/jobs:plan", plan(spec={"type": "session"}))
    api.on("POST", "/sessions", job("PENDING_SUBMIT", type="session"))
    api.on("GET", f"/jobs/{JOB_ID}", job("FAILED", type="session", message="It never answered."))
    done = aitne("session", "start", "jupyterlab", "--yes", "--wait", "--json")
    assert done.status == 1
    assert done.json["state"] == "FAILED"
    assert "It never answered." in done.err


def test_session_ls_lists_sessions(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", "/jobs", page())
    assert aitne("session", "ls", "--json").json == []
    assert api.requests[0].query["type"] == ["session"]


def test_show_says_why_a_job_waits_and_what_would_help(aitne: Aitne, api: FakeApi) -> None:
    api.on("GET", f"/jobs/{JOB_ID}", job("QUEUED", message="Waits for 4 CPUs."))
    held = [{"id": JOB_ID, "name": "lab"}]
    advice = [
        {"text": "These jobs of yours hold it:", "at": None, "jobs": held},
        {"text": "2 GPUs come free at the latest", "at": "2026-03-01T14:00:00Z", "jobs": []},
    ]
    api.on("GET", f"/jobs/{JOB_ID}/queue", {"position": None, "advice": advice})
    shown = " ".join(aitne("show", JOB_ID).out.split())
    assert "Waits for 4 CPUs." in shown
    assert "yours hold it: lab (3b7a1f00)" in shown
    assert "2 GPUs come free at the latest 2026-03-01" in shown
    assert aitne("show", JOB_ID, "--json").json["advice"] == advice


def test_open_alone_leads_to_the_portal_by_a_link_that_logs_in(aitne: Aitne, api: FakeApi) -> None:
    link = {"url": "http://p.test/login#link=x", "expires_at": "2026-01-01T00:15:00Z"}
    api.on("POST", "/auth/login-links", link)
    assert aitne("open", "--print").out == "http://p.test/login#link=x\n"


def test_open_prints_where_there_is_no_display(
    aitne: Aitne, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    api.on("GET", f"/jobs/{JOB_ID}", job("READY", type="session"))
    api.on("POST", f"/sessions/{JOB_ID}/open", {"url": "http://s.test/lab"})
    assert aitne("open", JOB_ID).out == "http://s.test/lab\n"
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)))
    aitne("open", JOB_ID, "--print")
    assert opened == []
    aitne("open", JOB_ID)
    assert opened == ["http://s.test/lab"]


def test_extend_moves_the_end_of_a_job_or_session(aitne: Aitne, api: FakeApi) -> None:
    for running in (job("READY", type="session"), job("RUNNING")):
        api.on("GET", f"/jobs/{JOB_ID}", running)
        longer = {**running, "expires_at": "2026-11-21T06:00:00Z"}
        api.on("POST", f"/jobs/{JOB_ID}/extend", longer)
        assert aitne("extend", JOB_ID, "1h", "--yes").status == 0
        assert api.sent("POST", f"/jobs/{JOB_ID}/extend")[-1].json == {"duration": "1h"}


# --- accounts ---------------------------------------------------------------------------------


def test_token_create_never_asks_and_answers_the_token(aitne: Aitne, api: FakeApi) -> None:
    api.on("POST", "/tokens", {"id": "t", "token": "aitne_pat_x"})
    line = ["admin", "token", "create", "--user", "ada", "--name", "ci"]
    assert aitne(*line, "--json").json["token"] == "aitne_pat_x"
    assert aitne(*line).out == "aitne_pat_x\n"
    assert api.requests[0].json["user"] == "ada"


def test_accounts(aitne: Aitne, api: FakeApi) -> None:
    user = {"name": "ada", "role": "user", "default_project": "ada", "display_name": "Ada"}
    api.on("GET", "/users", {"items": [user], "next_cursor": None, "total": 1})
    api.on("POST", "/users", user)
    api.on("PATCH", "/users/ada", {**user, "disabled": True})
    api.on("GET", "/me", {"user": {"name": "root"}})
    assert aitne("admin", "user", "ls", "--json").json == [user]
    assert "Ada" in aitne("admin", "user", "ls").out
    assert aitne("admin", "user", "create", "ada", "--password-stdin", piped="horse\n").status == 0
    assert api.sent("POST", "/users")[0].json["password"] == "horse"
    assert aitne("admin", "user", "disable", "ada").status == 2
    assert aitne("admin", "user", "disable", "ada", "--yes").status == 0
    assert aitne("admin", "user", "passwd", "ada", "--password-stdin", piped="new\n").status == 0
    assert api.sent("PATCH", "/users/ada")[-1].json == {"password": "new"}


# --- catalog, status --------------------------------------------------------------------------


def test_status_is_what_the_supervisor_says(
    aitne: Aitne, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process = {"name": "api", "pid": 7, "port": 8000, "memory_bytes": 1 << 26}
    found = {"state": "ready", "url": "http://127.0.0.1:8000", "processes": [process]}
    monkeypatch.setattr(platform_discovery, "ask_supervisor", lambda data_dir, verb: found)
    done = aitne("status", "--data-dir", str(tmp_path), "--json")
    assert (done.status, done.json) == (0, found)
    assert "64 MiB" in aitne("status", "--data-dir", str(tmp_path)).out
    monkeypatch.setattr(platform_discovery, "ask_supervisor", lambda data_dir, verb: None)
    done = aitne("status", "--data-dir", str(tmp_path), "--json")
    assert done.status == 1
    assert done.json == {"state": "stopped", "url": None, "processes": []}


def test_up_of_client_says_how_to_install_server(
    aitne: Aitne, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aitne.cli.server_package_check.find_spec", lambda name: None)
    done = aitne("up")
    assert done.status == 1
    assert done.err.startswith("aitne: This installation is the client")
    assert 'pip install "aitne[server]"' in done.err
