"""Snapshots and results of runs over the API."""

from __future__ import annotations

import io
import math
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from aitne.agent.program_metrics import ProgramMetrics
from aitne.cli.views.job_runs import write_csv
from aitne.client.job_runs import SweepRecord
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.access_token import Scope
from aitne.core.models.job import Job, JobChanges
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_job, make_session, store_job_token
from tests.support.stage import Stage

TOKEN = "the-jobs-own-token"
SWEEP = {
    "commands": ["python train.py"],
    "resources": {"cpu": 1, "memory": "1G"},
    "sweep": {
        "parameters": {"lr": [0.1, 0.01], "width": [16, 32]},
        "max_parallel": 2,
        "metric": "accuracy",
        "stop_when": {"value": 0.9},
    },
}
RUNNING = (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING)
TAKEN = {
    "schema": 1,
    "taken_at": "2026-03-01T12:00:00Z",
    "workdir": "/home/ada/model",
    "git": {"root": "/home/ada/model", "commit": "a" * 40, "branch": "main", "diff": "+x\n"},
    "environment": {
        "kind": "venv",
        "path": "/home/ada/env",
        "python": "3.12.4",
        "packages": {"torch": "2.13.0", "numpy": "2.4.0"},
    },
    "host": {"node": "n1", "kernel": "6.1"},
    "of_a_newer_agent": 1,
}


async def run(stage: Stage, job: Job, *, task: int | None = None) -> None:
    epoch = await stage.add_node()
    target = job
    if task is not None:
        target = (await stage.store.list_array_tasks(job.id))[task]
    for state in RUNNING:
        await stage.store.transition_job(target.id, state)
    await store_job_token(stage.store, job.id, hash_secret(TOKEN), epoch=epoch)


async def tell(stage: Stage, job_id: UUID | str, **fields: Any) -> httpx.Response:
    body = {"protocol": 1, "attempt": 1, "phase": "running", "node": "n1", **fields}
    async with stage.client(TOKEN) as agent:
        return await agent.post(f"/agent/v1/jobs/{job_id}/report", json=body)


def results(**values: float) -> dict[str, Any]:
    return {"schema": 1, "updated_at": "2026-03-01T12:00:00Z", "values": values}


async def test_the_snapshot_has_what_the_agent_told_and_what_was_known(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", project="ada", spec={"image": "bare"})
    await stage.store.create_job(job)
    await run(stage, job)
    url = f"/api/v1/jobs/{job.id}/snapshot"
    async with stage.client(await stage.token(ada)) as client:
        before = (await client.get(url)).json()
        assert (before["taken"], before["spec"]["commands"]) == (None, list(job.spec.commands))
        await tell(stage, job.id, snapshot=TAKEN)
        shown = (await client.get(url)).json()
        assert shown["taken"]["git"]["commit"] == "a" * 40
        assert shown["taken"]["environment"]["packages"]["torch"] == "2.13.0"
        assert "of_a_newer_agent" not in shown["taken"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"workdir": 1},
        {**TAKEN, "git": {"root": "/x", "commit": "no commit"}},
        {**TAKEN, "git": {"root": "/x", "diff": "x" * 300_000}},
        {**TAKEN, "notes": ["x"] * 100},
        {**TAKEN, "environment": {"kind": "venv", "packages": {"a": {"b": 1}}}},
    ],
)
async def test_invalid_snapshot_is_ignored_and_report_counts(
    stage: Stage, wrong: dict[str, Any]
) -> None:
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    await run(stage, job)
    assert (await tell(stage, job.id, snapshot=wrong)).status_code == 200
    assert await stage.store.find_snapshot(job.id) is None


async def test_files_and_results_once_they_are_told(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    await run(stage, job)
    async with stage.client(await stage.token(ada)) as client:
        for part in ("files", "results"):
            missing = await client.get(f"/api/v1/jobs/{job.id}/{part}")
            assert missing.status_code == 404
            assert job.name in missing.json()["detail"]
        written = {"path": "a.bin", "size_bytes": 3, "modified_at": "2026-03-01T12:00:00Z"}
        files = {"schema": 1, "folder": "/home/ada", "files": [written], "cut": False}
        await tell(stage, job.id, files=files)
        series = {**results(loss=0.5), "series": {"loss": [[0, 1.0], [1, 0.5]]}}
        await tell(stage, job.id, results=series)
        assert (await client.get(f"/api/v1/jobs/{job.id}/files")).json() == files
        found = (await client.get(f"/api/v1/jobs/{job.id}/results")).json()
        assert (found["values"], found["series"]["loss"]) == ({"loss": 0.5}, [[0, 1.0], [1, 0.5]])


async def test_results_that_are_no_numbers_are_left(stage: Stage) -> None:
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    await run(stage, job)
    await tell(stage, job.id, results=results(loss=0.5))
    # JSON has none of these, and a database that holds JSON refuses them.
    for wrong in (math.nan, math.inf, -math.inf):
        assert await stage.platform.snapshots.store_results(job.id, results(loss=wrong)) == {}
    kept = await stage.platform.snapshots.results_of(job)
    assert kept is not None
    assert kept.values == {"loss": 0.5}


async def test_a_sweep_from_its_plan_to_good_enough(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        plan = (await client.post("/api/v1/jobs:plan", json=SWEEP)).json()
        assert plan["settings"] == [
            {"lr": lr, "width": width} for lr in (0.1, 0.01) for width in (16, 32)
        ]
        assert plan["spec"]["array"] == "0-3%2"
        made = (await client.post("/api/v1/jobs", json=SWEEP)).json()
        assert made["sweep"]["metric"] == "accuracy"
        job = await stage.store.get_job(UUID(made["id"]))
        await run(stage, job, task=1)
        await stage.store.transition_job(
            (await stage.store.list_array_tasks(job.id))[2].id, JobState.SUBMITTING
        )
        url = f"/api/v1/jobs/{job.id}/sweep"
        found = (await client.get(url)).json()
        assert (found["best"], len(found["tasks"])) == (None, 4)
        await tell(stage, job.id, task=1, results=results(accuracy=0.8))
        found = (await client.get(url)).json()
        assert found["best"] == 1
        assert found["tasks"][1]["parameters"] == {"lr": 0.1, "width": 32}
        assert found["tasks"][1]["values"] == {"accuracy": 0.8}
        assert not (await stage.store.get_job(job.id)).cancel_requested_at
        await tell(stage, job.id, task=1, results=results(accuracy=0.93))
        tasks = await stage.store.list_array_tasks(job.id)
        assert [task.cancel_requested_at is not None for task in tasks] == [True, False, True, True]
        reached = "Task 1 reached the goal: accuracy 0.93 (goal: 0.9)."
        assert (tasks[2].reason, tasks[2].message) == (TerminationReason.GOAL_REACHED, reached)
        assert tasks[1].state is JobState.RUNNING
        for task in tasks:
            state = JobState.COMPLETED if task.id == tasks[1].id else JobState.CANCELLED
            if not task.state.is_terminal:
                await stage.store.transition_job(task.id, state)
        whole = (await client.get(f"/api/v1/jobs/{job.id}")).json()
        assert (whole["state"], whole["reason"]) == ("COMPLETED", "goal_reached")
        assert whole["message"] == reached


async def test_run_that_diverged_is_not_ranked_by_an_earlier_value(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        made = (await client.post("/api/v1/jobs", json=SWEEP)).json()
        job = await stage.store.get_job(UUID(made["id"]))
        await run(stage, job, task=1)
        metrics = ProgramMetrics()
        metrics.add("accuracy", 0.8, 0)
        metrics.add("accuracy", math.nan, 1)
        metrics.add("loss", math.inf, 1)
        await tell(stage, job.id, task=1, results=metrics.document())
        found = (await client.get(f"/api/v1/jobs/{job.id}/sweep")).json()
        assert found["best"] is None
        task = found["tasks"][1]
        diverged = {"accuracy": "nan", "loss": "inf"}
        assert (task["values"], task["not_finite"]) == ({}, diverged)
        shown = (await client.get(f"/api/v1/jobs/{task['job_id']}/results")).json()
        assert (shown["values"], shown["not_finite"]) == ({}, diverged)
        assert shown["series"] == {"accuracy": [[0.0, 0.8]]}
        table, record = io.StringIO(), SweepRecord(found)
        write_csv(record, table)
        assert table.getvalue().splitlines()[2].endswith(",nan,inf")
        metrics.add("accuracy", 0.7, 2)
        await tell(stage, job.id, task=1, results=metrics.document())
        again = (await client.get(f"/api/v1/jobs/{job.id}/sweep")).json()
        assert (again["best"], again["tasks"][1]["not_finite"]) == (1, {"loss": "inf"})


async def test_of_two_tasks_that_are_good_enough_the_first_is_kept(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        job = await stage.store.get_job(
            UUID((await client.post("/api/v1/jobs", json=SWEEP)).json()["id"])
        )
    await run(stage, job, task=0)
    second = (await stage.store.list_array_tasks(job.id))[1]
    for state in RUNNING:
        second = await stage.store.transition_job(second.id, state)
    for task in (0, 1):
        await tell(stage, job.id, task=task, results=results(accuracy=0.93))
    tasks = await stage.store.list_array_tasks(job.id)
    assert [task.cancel_requested_at is not None for task in tasks] == [False, True, True, True]


async def test_the_rest_of_a_sweep_is_stopped_and_the_best_goes_on(stage: Stage) -> None:
    await stage.add_node()
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    async with stage.client(await stage.token(ada)) as client:
        made = (await client.post("/api/v1/jobs", json=SWEEP)).json()
        job = await stage.store.get_job(UUID(made["id"]))
        await run(stage, job, task=3)
        await tell(stage, job.id, task=3, results=results(accuracy=0.5))
        stop = f"/api/v1/jobs/{job.id}/sweep/stop"
        async with stage.client(await stage.token(bob)) as other:
            assert (await other.post(stop)).status_code == 404
        async with stage.client(await stage.token(ada, Scope.READ)) as reader:
            assert (await reader.post(stop)).status_code == 403
        assert (await client.post(stop)).status_code == 202
        tasks = await stage.store.list_array_tasks(job.id)
        assert [task.cancel_requested_at is not None for task in tasks] == [True] * 3 + [False]
        alone = make_job(owner="ada", project="ada")
        await stage.store.create_job(alone)
        assert (await client.get(f"/api/v1/jobs/{alone.id}/sweep")).status_code == 404


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"array": "0-3"}, "sweep"),
        ({"type": "session", "commands": []}, "sweep"),
        ({"sweep": {"parameters": {"lr": list(range(100)), "b": list(range(11))}}}, "sweep"),
        ({"sweep": {"parameters": {"lr": [1]}, "method": "bayes"}}, "sweep.method"),
    ],
)
async def test_sweeps_that_are_refused(stage: Stage, fields: dict[str, Any], where: str) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post("/api/v1/jobs:plan", json={**SWEEP, **fields})
        assert answer.status_code == 422
        assert where in {each["field"] for each in answer.json()["problems"]}, answer.text


async def test_two_runs_side_by_side(stage: Stage) -> None:
    ada, eve = await stage.add_user("ada"), await stage.add_user("eve")
    jobs = []
    for number in (1, 2):
        job = make_job(owner="ada", project="ada", spec={"env": {"SEED": str(number)}})
        await stage.store.create_job(job)
        await run(stage, job)
        packages = {**TAKEN["environment"]["packages"], "torch": f"2.{number}"}  # type: ignore[index]
        environment = {**TAKEN["environment"], "packages": packages}  # type: ignore[dict-item]
        await tell(stage, job.id, snapshot={**TAKEN, "environment": environment})
        await tell(stage, job.id, results=results(accuracy=number / 10))
        await stage.store.transition_job(job.id, JobState.FAILED, JobChanges(exit_code=number))
        jobs.append(job)
    first, second = jobs
    async with stage.client(await stage.token(ada)) as client:
        found = (await client.get(f"/api/v1/jobs/{first.id}/compare/{second.id}")).json()
        rows = {
            (section["key"], row["field"]): (row["a"], row["b"])
            for section in found["sections"]
            for row in section["rows"]
            if not row["equal"]
        }
        assert rows[("job", "env.SEED")] == ("1", "2")
        assert rows[("packages", "torch")] == ("2.1", "2.2")
        assert rows[("outcome", "exit_code")] == (1, 2)
        assert rows[("metrics", "accuracy")] == (0.1, 0.2)
        assert found["differences"] == len(rows)
        (packages_,) = [each for each in found["sections"] if each["key"] == "packages"]
        assert packages_["equal_omitted"] == 1
        same = (await client.get(f"/api/v1/jobs/{first.id}/compare/{first.id}")).json()
        assert same["differences"] == 0
        assert (await client.get(f"/api/v1/jobs/{first.id}/compare/{uuid4()}")).status_code == 404
    async with stage.client(await stage.token(eve)) as client:
        for path in ("snapshot", "files", "results", "sweep", f"compare/{second.id}", "resubmit"):
            assert (await client.get(f"/api/v1/jobs/{first.id}/{path}")).status_code == 404, path


async def test_before_it_is_run_again_what_has_changed_is_said(stage: Stage, tmp_path: Any) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    head = tmp_path / "model" / ".git" / "HEAD"
    head.parent.mkdir(parents=True)
    head.write_text("b" * 40 + "\n")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    await run(stage, job)
    git = {"root": str(tmp_path / "model"), "commit": "a" * 40, "dirty": True, "diff": "+x\n"}
    packages = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    environment = {**TAKEN["environment"], "path": str(tmp_path / "env")}  # type: ignore[dict-item]
    await tell(stage, job.id, snapshot={**TAKEN, "git": git, "environment": environment})
    await stage.store.transition_job(job.id, JobState.COMPLETED)
    async with stage.client(await stage.token(ada)) as client:
        found = (await client.get(f"/api/v1/jobs/{job.id}/resubmit")).json()
        changes = {each["kind"]: each for each in found["changes"]}
        assert found["possible"]
        assert (changes["code"]["before"], changes["code"]["now"]) == ("a" * 10, "b" * 10)
        assert "installed or removed" in changes["packages"]["message"]
        assert any("not committed" in note for note in found["notes"])
        head.write_text("a" * 40 + "\n")
        found = (await client.get(f"/api/v1/jobs/{job.id}/resubmit")).json()
        assert "code" not in {each["kind"] for each in found["changes"]}


async def test_a_session_is_continued_once(stage: Stage) -> None:
    await stage.add_node()
    ada, bob = await stage.add_user("ada"), await stage.add_user("bob")
    async with stage.client(await stage.token(ada)) as client:
        old = (await client.post("/api/v1/sessions", json={"name": "work"})).json()
        url = f"/api/v1/sessions/{old['id']}/continue"
        assert (await client.post(url)).status_code == 409, "it lives"
        assert "continue" not in old["actions"]
        await client.post(f"/api/v1/sessions/{old['id']}/stop")
        shown = (await client.get(f"/api/v1/sessions/{old['id']}")).json()
        assert "continue" in shown["actions"]
        async with stage.client(await stage.token(bob)) as other:
            assert (await other.post(url)).status_code == 404
        key = {"Idempotency-Key": "once"}
        made = await client.post(url, headers=key)
        assert (made.status_code, made.json()["continues"]) == (201, old["id"])
        again = await client.post(url, headers=key)
        assert (again.json()["id"], again.headers["idempotency-replayed"]) == (
            made.json()["id"],
            "true",
        )
        refused = await client.post(url)
        assert refused.status_code == 409
        assert made.json()["id"] in refused.json()["detail"]
        await client.post(f"/api/v1/sessions/{made.json()['id']}/stop")
        third = (await client.post(f"/api/v1/sessions/{made.json()['id']}/continue")).json()
        spec = (await stage.store.get_job(UUID(third["id"]))).spec
        assert (str(spec.continues), str(spec.lineage)) == (made.json()["id"], old["id"])
        job = make_job(owner="ada", project="ada")
        await stage.store.create_job(job)
        assert (await client.post(f"/api/v1/sessions/{job.id}/continue")).status_code == 404


async def test_launching_again_begins_a_workspace_of_its_own(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    old = make_session(owner="ada", project="ada")
    old = old.model_copy(
        update={"spec": old.spec.model_copy(update={"continues": uuid4(), "lineage": uuid4()})}
    )
    await stage.store.create_job(old)
    await stage.store.request_cancel(old.id, stage.clock())
    async with stage.client(await stage.token(ada)) as client:
        made = (await client.post(f"/api/v1/sessions/{old.id}/relaunch")).json()
    spec = (await stage.store.get_job(UUID(made["id"]))).spec
    assert (spec.continues, spec.lineage) == (None, None)


async def test_resubmission_of_a_repository_says_that_it_is_fetched_again(stage: Stage) -> None:
    """The clone lies in the folder of the old job and says nothing about the next one."""
    ada = await stage.add_user("ada")
    repo = {"url": "https://example.org/a", "ref": "main"}
    job = make_job(owner="ada", project="ada", spec={"repo": repo, "commands": ("true",)})
    await stage.store.create_job(job)
    await run(stage, job)
    await tell(stage, job.id, snapshot={**TAKEN, "environment": None})
    async with stage.client(await stage.token(ada)) as client:
        found = (await client.get(f"/api/v1/jobs/{job.id}/resubmit")).json()
    assert "It ran commit aaaaaaaaaa. main is fetched again" in found["notes"][0]
    assert [change for change in found["changes"] if change["kind"] == "code"] == []
