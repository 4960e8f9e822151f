"""``POST /jobs:batch``: many job files in one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aitne.core.models.user import Role
from tests.support.stage import Stage, open_stage

FILE: dict[str, Any] = {"commands": ["true"], "resources": {"cpu": 1, "memory": "1G"}}
BATCH = "/api/v1/jobs:batch"


def named(*names: str) -> dict[str, Any]:
    return {"items": [{**FILE, "name": name} for name in names]}


async def test_each_file_of_a_batch_gets_its_job_or_its_problem(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    wrong = [
        {**FILE, "commandos": ["true"]},
        {**FILE, "max_duration": "1h", "project": "unknown"},
        "no job file",
    ]
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post(
            BATCH, json={"items": [{**FILE, "name": "first"}, *wrong, {**FILE, "name": "last"}]}
        )
        assert answer.status_code == 200
        first, unknown_field, unknown_project, no_file, last = answer.json()["items"]
        assert answer.json()["created"] == 2
        assert (first["problem"], first["job"]["name"]) == (None, "first")
        assert (last["problem"], last["job"]["name"]) == (None, "last")
        assert unknown_field["job"] is None
        problem = unknown_field["problem"]
        assert (problem["status"], problem["code"]) == (422, "invalid_input")
        assert problem["problems"][0]["field"] == "commandos"
        assert "did you mean commands" in problem["problems"][0]["message"]
        assert unknown_project["problem"]["problems"][0]["field"] == "project"
        assert no_file["problem"]["status"] == 422
        listed = (await client.get("/api/v1/jobs")).json()
        assert {job["name"] for job in listed["items"]} == {"first", "last"}
        got = await client.get(f"/api/v1/jobs/{first['job']['id']}")
        assert got.json() == first["job"]
    assert (await stage.store.get_outbox_depth())[0] == 2


async def test_a_repeated_batch_creates_no_further_jobs(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    headers = {"Idempotency-Key": "k-1"}
    async with stage.client(await stage.token(ada)) as client:
        first = (await client.post(BATCH, json=named("a", "b"), headers=headers)).json()
        again = (await client.post(BATCH, json=named("a", "b"), headers=headers)).json()
        assert [item["job"]["id"] for item in again["items"]] == [
            item["job"]["id"] for item in first["items"]
        ]
        assert (first["created"], again["created"]) == (2, 0)
        assert [item["replayed"] for item in again["items"]] == [True, True]
        other = await client.post(BATCH, json=named("a", "c"), headers=headers)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
        one = await client.post("/api/v1/jobs", json={**FILE, "name": "one"}, headers=headers)
        assert one.status_code == 201, "the key of a batch is not that of a job"
        assert (await client.get("/api/v1/jobs")).json()["total"] == 3


async def test_a_batch_stops_at_the_limit_of_live_jobs(tmp_path: Path, blank: Path) -> None:
    array = {**FILE, "name": "array", "array": "0-9"}
    async with open_stage(tmp_path, blank, limits={"max_live_jobs": 5}) as stage:
        await stage.add_node()
        ada = await stage.add_user("ada")
        async with stage.client(await stage.token(ada)) as client:
            assert (await client.post("/api/v1/jobs", json=FILE)).status_code == 201
            items = [array, *named(*"abcde")["items"]]
            results = (await client.post(BATCH, json={"items": items})).json()["items"]
    assert [result["job"] is not None for result in results] == [False, *[True] * 4, False]
    assert [results[0]["problem"]["status"], results[5]["problem"]["status"]] == [409, 409]
    assert "the limit is 5" in results[5]["problem"]["detail"]


@pytest.mark.parametrize("items", [[], [FILE] * 101, "no list", None])
async def test_a_batch_has_between_1_and_100_files(stage: Stage, items: object) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post(BATCH, json={"items": items})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "items"


async def test_a_batch_is_one_entry_of_the_audit_log_with_the_ids_of_its_jobs(
    stage: Stage,
) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    root = await stage.add_user("eve", Role.ADMIN)
    async with stage.client(await stage.token(ada)) as client:
        items = (await client.post(BATCH, json=named("a", "b"))).json()["items"]
    async with stage.client(await stage.token(root)) as client:
        log = (await client.get("/api/v1/admin/audit?action=create_jobs")).json()["items"]
    assert [entry["actor"] for entry in log] == ["ada"]
    assert log[0]["details"]["jobs"] == [item["job"]["id"] for item in items]
