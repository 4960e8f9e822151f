"""The command line against a whole platform."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aitne.local_system.settings_loader import load_settings
from aitne.operations.doctor import node_test_jobs
from aitne.operations.doctor.check_execution import run_checks
from aitne.operations.doctor.check_registry import CHECKS
from aitne.operations.doctor.checked_host import CheckedHost
from tests.support import realtime
from tests.support.documents import typed_commands
from tests.support.platform import RunningPlatform
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.platform,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]

Aitne = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def aitne(platform: RunningPlatform) -> Aitne:
    return platform.aitne


def job_file(folder: Path, **fields: Any) -> str:
    path = folder / "job.aitne.yml"
    path.write_text(json.dumps({"resources": {"cpu": 1, "memory": "256M"}, **fields}))
    return str(path)


def test_a_job_is_followed_to_its_end(aitne: Aitne, tmp_path: Path) -> None:
    path = job_file(
        tmp_path,
        name="quotes \"' $(id)\n#SBATCH 🚀",
        workdir=".",
        commands=["pwd", "echo out; echo err >&2", "printf 'no newline'"],
    )
    done = aitne("apply", "-f", path, "--yes", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["state"] == "COMPLETED"
    assert record["name"] == "quotes \"' $(id)\n#SBATCH 🚀"
    assert f"{tmp_path}\nout\nerr\n" in done.stderr
    newest = json.loads(aitne("ps", "--all", "--json").stdout)[0]
    assert newest["id"] == record["id"]
    assert aitne("logs", record["id"][:13]).stdout.startswith(str(tmp_path))


def test_notebook_runs_as_a_job_whose_message_names_the_cell_that_failed(
    aitne: Aitne, tmp_path: Path
) -> None:
    cells = [
        {"id": f"c{number}", "cell_type": "code", "metadata": {"tags": tags}, "source": code}
        | {"outputs": [], "execution_count": None}
        for number, (code, *tags) in enumerate(
            [("x = 1", "parameters"), ("print('x is', x)",), ("1 / (x - 3)",)]
        )
    ]
    path = tmp_path / "divide.ipynb"
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    path.write_text(json.dumps(book))
    done = aitne("batch", str(path), "-p", "x=3", "--memory", "1G", "--yes", "--wait")
    assert done.returncode == 1
    assert "x is 3\n" in done.stdout
    job = json.loads(aitne("ps", "--all", "--json").stdout)[0]
    assert (job["name"], job["state"], job["exit_code"]) == ("divide.ipynb", "FAILED", 1)
    assert job["message"] == "Cell 4 of 4 failed: ZeroDivisionError: division by zero."


def test_doctor_finds_no_failure_on_a_healthy_platform(
    aitne: Aitne, platform: RunningPlatform
) -> None:
    user = "doctors-user"
    aitne("admin", "user", "create", user, "--json")
    runs = {}
    # The other lines of the page have fewer options.
    lines = typed_commands("docs/handbook/doctor.md")
    for _, *words in (line for line in lines if {"--fix", "--job-as"} & {*line}):
        own = {"alice": user, "/var/lib/aitne": str(platform.data_dir)}
        done = aitne(*(own.get(word, word) for word in words), "--json")
        found = json.loads(done.stdout)["checks"]
        checks = {check["name"]: check for check in found}
        bad = [check for check in found if check["state"] in ("failed", "unknown")]
        assert (done.returncode, bad) == (0, []), f"{words}\n{done.stderr}"
        runs["--fix" if "--fix" in words else "--job-as"] = checks
    assert runs["--fix"]["test-job"]["state"] == "skipped"
    nodes = ("test-job", "node-folder", "node-clock", "node-portal", "portal-node")
    for name in ("processes", "api", "database-schema", *nodes):
        assert runs["--job-as"][name]["state"] == "ok", runs["--job-as"][name]
    health = json.loads(aitne("admin", "health", "--json").stdout)
    assert "doctor" in {part["name"] for part in health["parts"]}


def test_commands_of_the_handbook_show_load_health_and_audit_log(aitne: Aitne) -> None:
    pages = ("docs/handbook/dashboards.md", "docs/handbook/secure.md")
    typed = [command for page in pages for command in typed_commands(page)]
    lines = {" ".join(words): aitne(*words) for name, *words in typed if name == "aitne"}
    assert {line: done.stderr for line, done in lines.items() if done.returncode} == {}
    assert lines.keys() == {
        "node queues --period week",
        "node ls",
        "admin health",
        "admin audit verify",
    }
    assert "PARTITION" in lines["node queues --period week"].stdout


def test_doctor_leaves_neither_jobs_nor_a_token_of_the_user_if_the_queue_is_full(
    aitne: Aitne, platform: RunningPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = "queueing-user"
    aitne("admin", "user", "create", user, "--json")
    cpus = json.loads(aitne("node", "ls", "--json").stdout)[0]["cpu_total"]
    path = job_file(
        tmp_path,
        name="all CPUs",
        commands=["sleep 300"],
        resources={"cpu": cpus, "memory": "64M"},
        max_duration="10m",
    )
    filling = json.loads(aitne("apply", "-f", path, "--yes", "--json").stdout)["id"]
    running = ("ps", "--state", "RUNNING", "--json")
    eventually("the queue is full", lambda: filling in aitne(*running).stdout)
    monkeypatch.setattr(node_test_jobs, "WITHIN_S", 1.0)
    host = CheckedHost(load_settings(platform.data_dir), {"processes": []}, user)
    try:
        (result,) = asyncio.run(run_checks(host, [CHECKS["test-job"]])).report()
    finally:
        aitne("stop", filling, "--yes")

    assert result.state == "failed", result
    jobs = json.loads(aitne("ps", "--all", "--user", user, "--json").stdout)
    assert [job["state"] for job in jobs] == ["CANCELLED"]
    tokens = json.loads(aitne("admin", "token", "ls", "--json").stdout)
    assert not [token for token in tokens if token["name"] == "aitne doctor"]


@pytest.mark.long(third=2)
def test_acceptance_of_a_healthy_platform_has_no_failure(aitne: Aitne, tmp_path: Path) -> None:
    user = "site-user"
    aitne("admin", "user", "create", user, "--json")
    words = ("--as", user, "--output", str(tmp_path), "--anonymous", "--json")
    done = aitne("admin", "accept", *words)
    report = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert [check for check in report["checks"] if check["state"] == "failed"] == []
    assert done.returncode == 0
    for name in ("batch", "log-follow", "array", "ranks", "session", "limits", "cancel"):
        assert states[name] == "ok", report
    assert states["agent-killed"] == "ok"
    assert "pass --gpu" in next(c["message"] for c in report["checks"] if c["name"] == "gpu")
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert "agent-killed" in (tmp_path / "report.html").read_text()


@pytest.mark.long(third=2)
def test_interrupted_acceptance_cancels_its_jobs(platform: RunningPlatform, tmp_path: Path) -> None:
    words = [*platform.command, "admin", "accept", "--output", str(tmp_path)]
    command = subprocess.Popen(
        words, env=platform.env, cwd=platform.home, stderr=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    assert any(line.startswith("session:") for line in command.stderr)

    def session_states() -> set[str]:
        jobs = json.loads(platform.aitne("ps", "--all", "--json").stdout)
        return {job["state"] for job in jobs if job["type"] == "session"}

    eventually("the session is submitted", lambda: session_states() - {"CANCELLED", "COMPLETED"})
    command.terminate()
    command.communicate(timeout=60)
    assert command.returncode == 128 + 15
    eventually("the session ends", lambda: not session_states() - {"CANCELLED", "COMPLETED"})
    assert json.loads((tmp_path / "report.json").read_text())["interrupted"] is True
    tokens = json.loads(platform.aitne("admin", "token", "ls", "--json").stdout)
    assert not [token for token in tokens if token["name"] == "aitne acceptance"]


def test_a_failure_is_status_1_with_its_reason(aitne: Aitne, tmp_path: Path) -> None:
    path = job_file(tmp_path, commands=["echo before", "exit 7", "echo never"])
    done = aitne("apply", "-f", path, "--yes", "--wait")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert "exit code 7" in done.stderr.splitlines()[-1]


def test_invalid_job_file_creates_no_job(aitne: Aitne, tmp_path: Path) -> None:
    def listed() -> list[str]:
        return [job["id"] for job in json.loads(aitne("ps", "--all", "--json").stdout)]

    before = listed()
    path = job_file(tmp_path, commands=["true"], colour="red", max_duration="3 parsecs")
    done = aitne("apply", "-f", path, "--yes", "--json")
    assert done.returncode == 2
    problems = {p["field"]: p for p in json.loads(done.stdout)["error"]["problems"]}
    assert problems["colour"]["value"] == "red"
    assert problems["max_duration"]["line"] == 1
    assert listed() == before
    assert aitne("session", "start", "no-such-template", "--yes").returncode == 2
    assert aitne("logs", "00000000-0000-4000-8000-00000000dead").returncode == 3


def test_a_running_job_is_listed_followed_and_stopped(aitne: Aitne, tmp_path: Path) -> None:
    path = job_file(tmp_path, name="sleeper", commands=["echo up; exec sleep 600"])
    job_id = aitne("apply", "-f", path, "--yes").stdout.strip()
    assert job_id in {job["id"] for job in json.loads(aitne("ps", "--json").stdout)}
    done = aitne("stop", "sleeper", "--yes", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["state"] == "CANCELLED"
    assert aitne("watch", job_id).returncode == 1


def test_limit_of_a_project_holds_jobs_until_it_is_raised(aitne: Aitne, tmp_path: Path) -> None:
    user = json.loads(aitne("ps", "--json", "--all").stdout)[0]["owner"]
    for words in (("project", "create", "limited"), ("member", "add", "limited", user)):
        assert aitne("admin", *words).returncode == 0
    limits = aitne("admin", "project", "limits", "limited", "--max-cpus", "1")
    assert "limited: new limits. They apply at once" in limits.stderr
    path = job_file(tmp_path, project="limited", name="holder", commands=["exec sleep 600"])
    assert aitne("apply", "-f", path, "--yes").returncode == 0
    reason = "Waits for the limit of project limited: 1 of 1 CPUs in use"
    eventually("the plan names the limit", lambda: reason in aitne("plan", "-f", path).stdout)
    second = aitne("apply", "-f", path, "--yes").stdout.strip()
    eventually("the job waits", lambda: reason in aitne("show", second).stdout)
    wide = job_file(tmp_path, project="limited", commands=["true"], resources={"cpu": 2})
    refused = aitne("apply", "-f", wide, "--yes")
    assert refused.returncode == 2
    assert "project limited may use 1 at once" in refused.stderr
    assert aitne("project", "limits", "limited", "--max-cpus", "none").returncode == 0
    assert aitne("admin", "project", "limits", "limited", "--max-cpus", "2").returncode == 0
    eventually("the job starts", lambda: "RUNNING" in aitne("show", second).stdout)
    assert aitne("stop", second, "--yes", "--wait").returncode == 0
    assert aitne("stop", "holder", "--yes", "--wait").returncode == 0


def test_a_session_from_start_to_stop(aitne: Aitne) -> None:
    done = aitne("session", "start", "jupyterlab", "--yes", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    session = json.loads(done.stdout)
    assert session["state"] == "READY"
    assert session["url"].endswith("/lab")
    short = session["id"][:8]
    assert aitne("open", short, "--print").stdout == f"{session['url']}\n"
    assert aitne("extend", short, "30m", "--yes").returncode == 0
    assert aitne("stop", short, "--yes", "--wait").returncode == 0
    assert aitne("open", short).returncode == 1


def test_a_user_with_a_token_of_their_own(
    aitne: Aitne, platform: RunningPlatform, tmp_path: Path
) -> None:
    assert aitne("admin", "user", "create", "grace").returncode == 0
    users = json.loads(aitne("admin", "user", "ls", "--json").stdout)
    assert "grace" in {user["name"] for user in users}
    made = aitne("admin", "token", "create", "--user", "grace", "--name", "cli", "--json")
    token = json.loads(made.stdout)["token"]
    kept = aitne("login", platform.url, "--token", token, "--json")
    assert json.loads(kept.stdout) == {"url": platform.url, "user": "grace"}


def test_working_tree_travels_with_its_job(aitne: Aitne, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "run").write_text("#!/bin/sh\necho first from $PWD\n")
    (project / "run").chmod(0o755)
    (project / "data" / "value").write_text("42\n")
    path = job_file(tmp_path, commands=["./run", "cat data/value", "rm run"])

    def apply(*options: str) -> subprocess.CompletedProcess[str]:
        return aitne("apply", path, "--sync", str(project), "--yes", *options)

    done = apply("--wait", "--json")
    assert done.returncode == 0, done.stderr
    assert "Uploaded 2 files of 2" in done.stderr
    job = json.loads(done.stdout)
    assert job["tree"]["files"] == 2
    assert f"/{job['id']}/tree\n42\n" in done.stderr
    assert f"sha256 {job['tree']['digest'][:12]}" in aitne("show", job["id"]).stdout
    (project / "run").write_text("#!/bin/sh\necho second\n")
    again = apply("--wait")
    assert again.returncode == 0, again.stderr
    assert "Uploaded 1 file of 2" in again.stderr
    assert again.stdout.startswith("second\n42\n")
    # The tree of the first job is what it was, whatever its program did.
    repeated = aitne("resubmit", job["id"], "--yes", "--wait")
    assert repeated.returncode == 0, repeated.stderr
    assert repeated.stdout.startswith("first from ")


def test_a_deleted_job_leaves_nothing_but_its_usage(
    aitne: Aitne, platform: RunningPlatform, tmp_path: Path
) -> None:
    path = job_file(tmp_path, name="short-lived", commands=["echo done"])
    record = json.loads(aitne("apply", "-f", path, "--yes", "--wait", "--json").stdout)
    folder = platform.data_dir / "jobs" / record["id"]

    def shown() -> Any:
        return json.loads(aitne("show", record["id"], "--json").stdout)

    eventually("its folder was measured", lambda: shown()["folder_files"] == 4)
    assert sorted(str(each.relative_to(folder)) for each in folder.rglob("*")) == [
        *("1", "1/fence", "1/output.log")
    ]
    assert "done" in aitne("logs", record["id"]).stdout
    usage = aitne("usage", "--json").stdout
    done = aitne("rm", "short-lived", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert [each["outcome"] for each in json.loads(done.stdout)] == ["requested"]
    eventually("the job is gone", lambda: aitne("show", record["id"]).returncode != 0)
    assert not folder.exists()
    assert aitne("rm", record["id"], "--yes").returncode != 0
    jobs = [each["jobs"] for each in json.loads(usage)["rows"]]
    assert [each["jobs"] for each in json.loads(aitne("usage", "--json").stdout)["rows"]] == jobs


def test_repository_is_cloned_for_its_job(aitne: Aitne, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    name = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", repository], check=True)
    commit = ["git", "-C", repository, *name, "commit", "--quiet", "--allow-empty", "-m", "first"]
    subprocess.run(commit, check=True)
    repo = {"url": f"file://{repository}", "ref": "main"}
    done = aitne(
        "apply",
        job_file(tmp_path, repo=repo, commands=["git log -1 --format=%s"]),
        "--yes",
        "--wait",
    )
    assert (done.returncode, done.stdout) == (0, "first\n"), done.stderr
    missing = job_file(tmp_path, repo={**repo, "ref": "never"}, commands=["true"])
    refused = aitne("apply", missing, "--yes", "--wait", "--json")
    assert refused.returncode == 1
    job = json.loads(refused.stdout)
    assert "has no branch, tag or commit never" in job["message"]
    assert f"file://{repository} at never" in aitne("show", job["id"]).stdout
