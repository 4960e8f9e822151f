"""Deletion of ended jobs by the API, and how long projects keep them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.user import Role
from tests.support.jobs import make_array, make_job
from tests.support.stage import Stage

JOBS = "/api/v1/jobs"


async def test_only_a_job_that_has_ended_is_deleted(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    live = make_job(owner="ada", state=JobState.UNKNOWN)
    done = make_job(owner="ada", state=JobState.FAILED, ended_at=stage.clock())
    array, tasks = make_array("0-1", owner="ada", state=JobState.COMPLETED, ended_at=stage.clock())
    for job in (live, done):
        await stage.store.create_job(job)
    await stage.store.create_job(array, tasks)
    async with stage.client(await stage.token(ada)) as client:
        refused = await client.delete(f"{JOBS}/{live.id}")
        assert refused.status_code == 409
        assert "UNKNOWN" in refused.json()["detail"]
        assert "cancel" in refused.json()["detail"]
        refused = await client.delete(f"{JOBS}/{tasks[0].id}")
        assert refused.status_code == 409
        assert str(array.id) in refused.json()["detail"]
        before = (await client.get(f"{JOBS}/{done.id}")).json()
        assert "delete" in before["actions"]
        answer = await client.delete(f"{JOBS}/{done.id}")
        assert answer.status_code == 202
        view = answer.json()
        assert view["delete_requested_at"] is not None
        assert "delete" not in view["actions"]
        assert (await client.delete(f"{JOBS}/{done.id}")).status_code == 202
        # A new job cannot depend on it any more.
        body = {"commands": ["true"], "afterany": [str(done.id)]}
        told = await client.post(JOBS, json=body)
        assert told.status_code == 422
        assert "is being deleted" in told.text


async def test_each_of_many_jobs_has_its_own_outcome(stage: Stage) -> None:
    ada = await stage.add_user("ada", project="vision")
    await stage.add_user("bob", project="vision")
    await stage.add_user("eve")

    async def made(owner: str = "ada", state: JobState = JobState.COMPLETED, **more: Any) -> str:
        ended = stage.clock() if state.is_terminal else None
        job = make_job(owner=owner, state=state, ended_at=ended, **{"project": "vision", **more})
        await stage.store.create_job(job)
        return str(job.id)

    done, live, bobs = await made(), await made(state=JobState.RUNNING), await made("bob")
    eves, strange = await made("eve", project="eve"), str(uuid4())
    async with stage.client(await stage.token(ada)) as client:
        ids = [done, live, bobs, eves, strange, done]
        answer = await client.post(f"{JOBS}:delete", json={"ids": ids})
        assert answer.status_code == 202
        assert {each["id"]: each["outcome"] for each in answer.json()["items"]} == {
            done: "requested",
            live: "not_ended",
            bobs: "not_allowed",
            eves: "not_found",
            strange: "not_found",
        }
        assert answer.json()["requested"] == 1
        await made(name="old 1")
        await made(name="old 2")
        await made(name="old 3", state=JobState.RUNNING)
        body: dict[str, Any] = {"filter": {"q": "old"}, "expected": 3}
        refused = await client.post(f"{JOBS}:delete", json=body)
        assert refused.status_code == 409
        assert "2 ended jobs match" in refused.json()["detail"]
        body["expected"] = 2
        assert (await client.post(f"{JOBS}:delete", json=body)).json()["requested"] == 2
        for wrong in ({}, {"ids": []}, {"filter": {}}, {"filter": {}, "expected": 1_001}):
            assert (await client.post(f"{JOBS}:delete", json=wrong)).status_code == 422


async def test_administrators_delete_jobs_of_others(stage: Stage) -> None:
    await stage.add_user("ada")
    root = await stage.add_user("root", role=Role.ADMIN)
    job = make_job(owner="ada", state=JobState.COMPLETED, ended_at=stage.clock())
    await stage.store.create_job(job)
    async with stage.client(await stage.token(root)) as client:
        assert (await client.delete(f"{JOBS}/{job.id}")).status_code == 202


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"keep_jobs": "12h"}, "is too short"),
        ({"keep_jobs": "forever"}, None),  # the site keeps all jobs
        ({"keep_jobs": "30d", "keep_failed_jobs": "90d"}, None),
        ({"keep_jobs": "soon"}, ""),
        ({"keep": "30d"}, ""),
        ({}, None),
    ],
)
async def test_a_project_keeps_jobs_within_what_the_site_permits(
    stage: Stage, body: dict[str, str], problem: str | None
) -> None:
    root = await stage.add_user("root", role=Role.ADMIN)
    await stage.add_user("ada", project="vision")
    async with stage.client(await stage.token(root)) as client:
        answer = await client.put("/api/v1/projects/vision/retention", json=body)
        if problem is None:
            assert answer.status_code == 200
            assert (answer.json()["retention"] is None) == (not body)
        else:
            assert answer.status_code == 422
            assert problem in answer.text
        assert (await client.get("/api/v1/storage/jobs")).json()["jobs"] == 0
