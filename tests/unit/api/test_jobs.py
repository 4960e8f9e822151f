from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from aitne.core.jobs.states import JobState
from aitne.core.models.job import JobChanges
from aitne.core.models.usage_sample import Sample
from tests.support.asgi import SOON_S, open_answer
from tests.support.files import key_of
from tests.support.jobs import make_job, make_session
from tests.support.stage import Stage

FILE = {
    "name": "digits",
    "commands": ["python train.py"],
    "env": {"OMP_NUM_THREADS": "2"},
    "resources": {"cpu": 2, "memory": "1G"},
    "max_duration": "1h",
}
RUNNING = (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING)


async def move(stage: Stage, job_id: UUID | str, *states: JobState, **changes: object) -> None:
    for state in states[:-1]:
        await stage.store.transition_job(UUID(str(job_id)), state)
    await stage.store.transition_job(
        UUID(str(job_id)), states[-1], JobChanges.model_validate(changes)
    )


async def test_a_plan_stores_nothing(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        plan = (await client.post("/api/v1/jobs:plan", json=FILE)).json()
        assert plan["fits"]
        assert plan["spec"]["resources"]["memory_bytes"] == 1 << 30
        assert plan["script"].startswith("#!")
        assert (await client.get("/api/v1/jobs")).json()["total"] == 0


async def test_a_job_is_made_and_shown_flat(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        made = await client.post("/api/v1/jobs", json=FILE)
        assert made.status_code == 201
        job = made.json()
        assert made.headers["location"] == f"/api/v1/jobs/{job['id']}"
        assert job["state"] == "PENDING_SUBMIT"
        assert job["owner"] == job["project"] == "ada"
        assert job["image"] == "bare"
        assert job["resources"] == {
            "nodes": 1,
            "cpu": 2,
            "tasks_per_node": None,
            "cpus_per_task": None,
            "memory_bytes": 1 << 30,
            "memory_request": "amount",
            "gpu": {"count": 0, "type": None},
            "gres": {},
            "sbatch_options": [],
        }
        assert job["max_duration_s"] == 3_600
        assert job["actions"] == ["cancel", "hold"]
        assert [stage["key"] for stage in job["stages"]] == [
            *("submitted", "queued", "starting", "running", "done"),
        ]
        assert job["stages"][0]["status"] == "current"
        got = await client.get(f"/api/v1/jobs/{job['id']}")
        assert got.json() == job
        assert got.headers["etag"] == '"1"'
        assert (await client.get("/api/v1/jobs")).json() == {
            "items": [job],
            "next_cursor": None,
            "total": 1,
        }


async def test_the_same_key_makes_one_job_also_at_once(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    headers = {"Idempotency-Key": "k-1"}
    async with stage.client(await stage.token(ada)) as client:
        answers = await asyncio.gather(
            *(client.post("/api/v1/jobs", json=FILE, headers=headers) for _ in range(8))
        )
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        replayed = [answer.headers.get("idempotency-replayed") for answer in answers]
        assert sorted(map(str, replayed)) == ["None", *["true"] * 7]
        other = await client.post("/api/v1/jobs", json={**FILE, "name": "x"}, headers=headers)
        assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
        assert (await client.get("/api/v1/jobs")).json()["total"] == 1
        assert (await client.post("/api/v1/jobs", json=FILE)).status_code == 201
    bob = await stage.add_user("bob")
    async with stage.client(await stage.token(bob)) as client:
        theirs = await client.post("/api/v1/jobs", json=FILE, headers=headers)
        assert theirs.status_code == 201
        assert theirs.json()["owner"] == "bob"


@pytest.mark.parametrize("key", ["", "with space", "x" * 201, "ünïcode"])
async def test_a_key_that_cannot_be_one_is_refused(stage: Stage, key: str) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post(
            "/api/v1/jobs", json=FILE, headers={"Idempotency-Key": key.encode()}
        )
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "Idempotency-Key"


async def test_jobs_come_in_pages_newest_first(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    for n in range(7):
        stage.clock.move(1)
        await stage.store.create_job(
            make_job(owner="ada", project="ada", name=f"job {n}", created_at=stage.clock.now)
        )
    names: list[str] = []
    async with stage.client(await stage.token(ada)) as client:
        cursor = None
        while True:
            query = {"limit": 3} | ({} if cursor is None else {"cursor": cursor})
            page = (await client.get("/api/v1/jobs", params=query)).json()
            assert page["total"] == 7
            names += [job["name"] for job in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    assert names == [f"job {n}" for n in range(6, -1, -1)]


async def test_lists_are_filtered(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    batch = make_job(owner="ada", project="ada", name="100% sure")
    session = make_session(owner="ada", project="ada")
    for job in (batch, session):
        await stage.store.create_job(job)
    await stage.store.transition_job(session.id, JobState.CANCELLED)
    async with stage.client(await stage.token(ada)) as client:
        for path, query, expected in (
            ("jobs", "type=session", [session]),
            ("jobs", "state=PENDING_SUBMIT", [batch]),
            ("jobs", "state=CANCELLED&state=PENDING_SUBMIT", [batch, session]),
            ("jobs", "q=100%25", [batch]),
            ("jobs", "owner=bob", []),
            ("sessions", "", [session]),
        ):
            found = (await client.get(f"/api/v1/{path}?{query}")).json()
            ids = {job["id"] for job in found["items"]}
            assert ids == {str(job.id) for job in expected}, query
            assert found["total"] == len(expected)


async def test_cancel_and_resubmit(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        job = (await client.post("/api/v1/jobs", json=FILE)).json()
        cancelled = await client.post(f"/api/v1/jobs/{job['id']}/cancel")
        assert cancelled.status_code == 202
        assert cancelled.json()["state"] == "CANCELLED"
        assert cancelled.json()["actions"] == ["resubmit", "delete"]
        url = f"/api/v1/jobs/{job['id']}/resubmit"
        for field in ("memory", "max_duration"):
            bare = await client.post(url, json={field: 4_096})
            assert (bare.status_code, bare.json()["problems"][0]["field"]) == (422, field)
        again = await client.post(url)
        assert again.status_code == 201
        assert again.json()["id"] != job["id"]
        assert again.json()["commands"] == job["commands"]


async def test_script_metrics_and_history(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        job = (await client.post("/api/v1/jobs", json=FILE)).json()
        url = f"/api/v1/jobs/{job['id']}"
        script = await client.get(f"{url}/script")
        assert script.headers["content-type"] == "text/plain; charset=utf-8"
        assert job["id"] in script.text
        empty = (await client.get(f"{url}/metrics")).json()
        assert empty["samples"] == []
        assert empty["summary"] == {"cpu_mean": None, "cpu_max": None, "memory_max_bytes": None}
        described = {value["name"]: (value["title"], value["unit"]) for value in empty["values"]}
        assert described["power_w"] == ("GPU power", "W")
        samples = [
            Sample(time=stage.clock.now, node=node, cpu=cpu, memory_bytes=memory)
            for node, cpu, memory in (("node01", 1.0, 10), ("node02", 3.0, 5))
        ]
        await stage.store.add_samples(UUID(job["id"]), samples)
        summary = (await client.get(f"{url}/metrics")).json()["summary"]
        assert summary == {"cpu_mean": 2.0, "cpu_max": 3.0, "memory_max_bytes": 10}
        events = (await client.get(f"{url}/events")).json()["items"]
        assert [event["kind"] for event in events] == ["job.created"]


async def test_parts_of_a_log(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    stage.files.logs[key_of(job)] = b"0123456789"
    url = f"/api/v1/jobs/{job.id}/logs"
    async with stage.client(await stage.token(ada)) as client:
        for query, data, offset in (
            ("", b"0123456789", 0),
            ("?offset=4", b"456789", 4),
            ("?offset=4&limit=2", b"45", 4),
            ("?tail=3", b"789", 7),
            ("?tail=99", b"0123456789", 0),
            ("?tail=0", b"", 10),
            ("?offset=99", b"", 10),
        ):
            answer = await client.get(url + query)
            assert answer.content == data, query
            assert answer.headers["x-log-offset"] == str(offset)
            assert answer.headers["x-log-size"] == "10"
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_followed_log_ends_with_its_job(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    await move(stage, job.id, *RUNNING)
    stage.files.logs[key_of(job)] = b"first\n"
    headers = {"Authorization": f"Bearer {await stage.token(ada)}"}
    async with open_answer(stage.app, f"/api/v1/jobs/{job.id}/logs?follow=true", headers) as answer:
        assert answer.headers["x-log-offset"] == "0"
        assert await answer.until(b"first\n") == b"first\n"
        stage.files.logs[key_of(job)] += b"second\n"
        assert await answer.until(b"second\n") == b"second\n"
        stage.files.logs[key_of(job)] += b"last\n"
        await move(stage, job.id, JobState.COMPLETED)
        assert await answer.until(b"last\n") == b"last\n"
        async with asyncio.timeout(SOON_S):
            await answer.task
        assert answer.ended


async def test_followed_log_stops_when_user_loses_access(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.add_user("ada")
    await stage.add_user("bob")
    job = make_job(owner="bob", project="bob")
    await stage.store.create_job(job)
    await stage.store.save_member("bob", "ada", actor="bob")
    await move(stage, job.id, *RUNNING)
    stage.files.logs[key_of(job)] = b"first\n"
    monkeypatch.setattr("aitne.api.event_stream.RECHECK_S", 0.05)
    headers = {"Authorization": f"Bearer {await stage.token(stage.actor('ada'))}"}
    async with open_answer(stage.app, f"/api/v1/jobs/{job.id}/logs?follow=true", headers) as answer:
        await answer.until(b"first\n")
        await stage.store.remove_member("bob", "ada", actor="bob")
        async with asyncio.timeout(SOON_S):
            await answer.task
        assert answer.ended


async def test_followed_log_ends_when_client_disconnects(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    stage.files.logs[key_of(job)] = b"first\n"
    headers = {"Authorization": f"Bearer {await stage.token(ada)}"}
    async with open_answer(
        stage.app, f"/api/v1/jobs/{job.id}/logs?follow=true&tail=3", headers
    ) as answer:
        assert await answer.until(b"t\n") == b"st\n"
        answer.leave()
        async with asyncio.timeout(SOON_S):
            await answer.task


async def test_a_session_from_launch_to_stop(stage: Stage) -> None:
    await stage.add_node()
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        made = await client.post("/api/v1/sessions", json={"template": "jupyterlab"})
        assert made.status_code == 201, made.text
        session = made.json()
        assert session["type"] == "session"
        assert [stage["key"] for stage in session["stages"]][3:] == ["connecting", "ready"]
        url = f"/api/v1/sessions/{session['id']}"
        early = await client.post(f"{url}/open")
        assert (early.status_code, early.json()["code"]) == (409, "conflict")
        await move(
            stage,
            session["id"],
            *RUNNING,
            JobState.READY,
            url="http://sessions.test/lab",
            allocated_at=stage.clock.now,
            started_at=stage.clock.now,
            expires_at=stage.clock.now.replace(hour=13),
        )
        shown = (await client.get(url)).json()
        assert shown["actions"] == ["open", "extend", "stop"]
        opened = await client.post(f"{url}/open")
        assert opened.json() == {"url": "http://sessions.test/lab"}
        extended = await client.post(f"{url}/extend", json={"duration": "1h"})
        assert extended.status_code == 200
        for wrong in ({"duration": "soon"}, {"duration": "900d"}, {}):
            refused = await client.post(f"{url}/extend", json=wrong)
            assert refused.status_code == 422
            assert refused.json()["problems"][0]["field"] == "duration"
        stopped = await client.post(f"{url}/stop")
        assert stopped.status_code == 202
        assert stopped.json()["cancel_requested"]


async def test_a_batch_job_is_no_session(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    async with stage.client(await stage.token(ada)) as client:
        assert (await client.get(f"/api/v1/sessions/{job.id}")).status_code == 404
        for verb in ("open", "stop"):
            answer = await client.post(f"/api/v1/sessions/{job.id}/{verb}")
            assert answer.status_code == 404
        typed = await client.post("/api/v1/sessions", json={"type": "job"})
        assert typed.json()["problems"][0]["field"] == "type"


async def test_templates_and_nodes(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        templates = (await client.get("/api/v1/templates")).json()
        assert {"jupyterlab", "batch", "python-train"} <= {
            template["name"] for template in templates["items"]
        }
        assert templates["problems"] == []
        one = (await client.get("/api/v1/templates/jupyterlab")).json()
        assert one in templates["items"]
        nothing = (await client.get("/api/v1/cluster/nodes")).json()
        assert nothing == {"items": [], "as_of": None, "stale": True, "scheduler": None}
        await stage.add_node()
        nodes = (await client.get("/api/v1/cluster/nodes")).json()
        assert (len(nodes["items"]), nodes["stale"]) == (1, False)
        stage.clock.move(60)
        assert (await client.get("/api/v1/cluster/nodes")).json()["stale"]
