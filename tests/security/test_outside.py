"""Jobs that were submitted outside the platform: access, cancellation and refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobOrigin
from aitne.core.models.user import Role
from tests.support.jobs import make_job
from tests.support.stage import Stage, open_stage

LOG = "/home/ada/slurm-7.out"
WHO = ("owner", "member", "stranger", "administrator")


@pytest.fixture
async def stage(tmp_path: Path, blank: Path) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path, blank) as stage:
        yield stage


async def prepare(stage: Stage, **overrides: Any) -> tuple[Job, dict[str, str]]:
    """Store a job of ada from outside with its log; return it and a token of each role."""
    users = {
        "owner": await stage.add_user("ada", project="vision"),
        "member": await stage.add_user("eve", project="vision"),
        "stranger": await stage.add_user("bob"),
        "administrator": await stage.add_user("root", Role.ADMIN),
    }
    tokens = {who: await stage.token(actor) for who, actor in users.items()}
    values = {
        "owner": "ada",
        "origin": JobOrigin.OUTSIDE,
        "account": "ada",
        "scheduler_id": "7",
        "submitted_at": stage.clock.now,
        "state": JobState.RUNNING,
        "log_path": LOG,
        "log_seal": f"seal of {LOG}",
    }
    job = make_job(**{**values, **overrides})
    await stage.store.add_outside_jobs([job], epoch=await stage.add_node())
    stage.outside.logs[f"ada:{LOG}"] = b"epoch 1\nepoch 2\n"
    return job, tokens


async def statuses(stage: Stage, tokens: dict[str, str], method: str, path: str) -> list[int]:
    answers = []
    for who in WHO:
        async with stage.client(tokens[who]) as client:
            answers.append((await client.request(method, f"/api/v1{path}")).status_code)
    return answers


async def test_strangers_neither_see_nor_cancel_a_job_from_outside(stage: Stage) -> None:
    job, tokens = await prepare(stage)
    assert await statuses(stage, tokens, "GET", f"/jobs/{job.id}") == [200, 200, 404, 200]
    async with stage.client(tokens["stranger"]) as bob:
        assert (await bob.get("/api/v1/jobs?origin=outside")).json()["total"] == 0
        assert (await bob.post(f"/api/v1/jobs/{job.id}/cancel")).status_code == 404
        assert (
            await bob.post("/api/v1/jobs:cancel", json={"ids": [str(job.id)]})
        ).status_code == 202
    async with stage.client(tokens["member"]) as eve:
        assert (await eve.post(f"/api/v1/jobs/{job.id}/cancel")).status_code == 403
    assert (await stage.store.get_job(job.id)).cancel_requested_at is None
    async with stage.client(tokens["owner"]) as ada:
        assert (await ada.get("/api/v1/jobs?origin=platform")).json()["total"] == 0
        page = (await ada.get("/api/v1/jobs?origin=outside")).json()
        [shown] = page["items"]
        assert (shown["origin"], shown["log_path"], shown["actions"]) == (
            *("outside", LOG, ["cancel"]),
        )
        assert "log_seal" not in shown
        assert (await ada.post(f"/api/v1/jobs/{job.id}/cancel")).json()["cancel_requested"]


async def test_log_from_outside_is_read_by_its_owner_alone(stage: Stage) -> None:
    job, tokens = await prepare(stage)
    path = f"/jobs/{job.id}/logs"
    assert await statuses(stage, tokens, "GET", path) == [200, 403, 404, 403]
    async with stage.client(tokens["owner"]) as ada:
        assert (await ada.get(f"/api/v1{path}?tail=8")).text == "epoch 2\n"
        # The path is the scheduler's, whatever a request contains.
        assert (await ada.get(f"/api/v1{path}?path=/etc/shadow")).status_code == 422


async def test_log_without_a_path_is_refused_with_a_reason(stage: Stage) -> None:
    job, tokens = await prepare(stage, log_path=None, log_seal=None, state=JobState.FAILED)
    async with stage.client(tokens["owner"]) as ada:
        answer = await ada.get(f"/api/v1/jobs/{job.id}/logs")
        failure = await ada.get(f"/api/v1/jobs/{job.id}/failure")
    assert answer.status_code == 404
    assert "names no file" in answer.json()["detail"]
    assert failure.status_code == 200


async def test_log_of_each_task_of_an_array_is_read_by_its_owner_alone(stage: Stage) -> None:
    pattern = "/home/ada/slurm-7_%a.out"
    fields = {"spec": {"array": "0-9"}, "log_path": pattern, "log_seal": f"seal of {pattern}"}
    job, tokens = await prepare(stage, **fields)
    stage.outside.logs["ada:/home/ada/slurm-7_3.out"] = b"task 3\n"
    path = f"/jobs/{job.id}/logs"
    assert await statuses(stage, tokens, "GET", f"{path}?task=3") == [200, 403, 404, 403]
    async with stage.client(tokens["owner"]) as ada:
        assert (await ada.get(f"/api/v1{path}?task=3")).text == "task 3\n"
        for query, problem in (("", "name the task"), ("?task=10", "no such task")):
            answer = await ada.get(f"/api/v1{path}{query}")
            assert answer.status_code == 422
            assert problem in answer.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs/{id}/resubmit", None),
        ("GET", "/jobs/{id}/resubmit", None),
        ("GET", "/jobs/{id}/script", None),
        ("POST", "/jobs/{id}/terminal", {}),
        ("GET", "/jobs/{id}/compare/{id}", None),
    ],
)
async def test_verbs_that_need_an_agent_or_a_job_file_are_refused(
    stage: Stage, method: str, path: str, body: dict[str, Any] | None
) -> None:
    job, tokens = await prepare(stage, nodes=("node01",))
    async with stage.client(tokens["owner"]) as ada:
        answer = await ada.request(method, f"/api/v1{path.replace('{id}', str(job.id))}", json=body)
    assert answer.status_code == 409
    assert "submitted outside the platform" in answer.json()["detail"]


async def test_dependency_on_a_job_from_outside_is_refused(stage: Stage) -> None:
    job, tokens = await prepare(stage)
    file = {"type": "job", "commands": ["true"], "after": [str(job.id)], "project": "vision"}
    async with stage.client(tokens["owner"]) as ada:
        answer = await ada.post("/api/v1/jobs", json=file)
    assert answer.status_code == 422
    assert "outside the platform" in answer.text
