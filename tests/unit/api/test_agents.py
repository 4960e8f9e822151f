from __future__ import annotations

import asyncio
from uuid import uuid4

import httpx
import pytest

from aitne.core.models.job import Job, JobChanges
from aitne.core.states import JobState
from aitne.services.secrets import hashed
from tests.support.jobs import make_array, make_job, make_session
from tests.support.stage import SECRETS, Stage

TOKEN = "the-jobs-own-token"
HUB = {"Authorization": f"Bearer {SECRETS['hub_service_secret']}"}


async def stored(stage: Stage, job: Job, *states: JobState) -> Job:
    epoch = await stage.add_node()
    await stage.store.create_job(job)
    for state in states:
        job = await stage.store.transition(job.id, state)
    await stage.store.set_job_token(job.id, hashed(TOKEN), epoch=epoch)
    return job


def report(phase: str = "started", **fields: object) -> dict[str, object]:
    return {"protocol": 1, "attempt": 1, "phase": phase, "node": "node01", **fields}


async def send(
    stage: Stage, job: Job, body: dict[str, object], token: str = TOKEN
) -> httpx.Response:
    async with stage.client(token) as agent:
        return await agent.post(f"/agent/v1/jobs/{job.id}/report", json=body)


async def test_started_makes_a_queued_job_run(stage: Stage) -> None:
    job = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    answer = await send(stage, job, report(address="node01:40123"))
    assert answer.json() == {"protocol": 1}
    job = await stage.store.get_job(job.id)
    assert job.state is JobState.RUNNING
    assert job.address == "node01:40123"
    assert job.nodes == ("node01",)
    assert job.started_at == stage.clock.now
    assert job.expires_at is not None
    assert (job.expires_at - stage.clock.now).total_seconds() == job.spec.max_duration_s


async def test_a_heartbeat_stores_samples_and_makes_good_a_lost_start(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING)
    sample = {"time": "2026-03-01T12:00:00Z", "node": "node01", "cpu": 1.5, "memory_bytes": 1000}
    await send(stage, job, report("running", samples=[sample]))
    assert (await stage.store.get_job(job.id)).state is JobState.RUNNING
    assert [each.cpu for each in await stage.store.samples(job.id)] == [1.5]
    version = (await stage.store.get_job(job.id)).version
    await send(stage, job, report("running", samples=[sample]))
    assert (await stage.store.get_job(job.id)).version == version


async def test_an_agent_that_is_quicker_than_the_schedulers_answer_is_heard(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING)
    async with asyncio.timeout(5):
        assert (await send(stage, job, report())).status_code == 200
    assert (await stage.store.get_job(job.id)).state is JobState.RUNNING


@pytest.mark.parametrize(
    "address", ["node01", "node01:x", "u:p@node01:80", "node01:80/x", "a" * 999]
)
async def test_an_address_is_a_node_and_a_port(stage: Stage, address: str) -> None:
    job = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    answer = await send(stage, job, report(address=address))
    assert 400 <= answer.status_code < 500
    assert (await stage.store.get_job(job.id)).state is JobState.QUEUED


async def test_finished_is_a_hint_and_never_an_outcome(stage: Stage) -> None:
    job = await stored(
        stage, make_job(), JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING, JobState.RUNNING
    )
    await send(stage, job, report("finished", exit_code=3))
    job = await stage.store.get_job(job.id)
    assert (job.state, job.exit_code, job.reason) == (JobState.COMPLETING, None, None)


async def test_an_earlier_attempt_is_answered_politely_and_ignored(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED)
    assert (await send(stage, job, report(attempt=7))).status_code == 200
    assert (await stage.store.get_job(job.id)).state is JobState.QUEUED


async def test_a_run_that_the_scheduler_started_again_begins_anew(stage: Stage) -> None:
    job = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    await send(stage, job, report(address="node01:1"))
    await stage.store.transition(job.id, JobState.READY, JobChanges(url="http://x/lab"))
    stage.clock.move(100)
    await send(stage, job, report(address="node02:2", node="node02", restart_count=1))
    job = await stage.store.get_job(job.id)
    assert (job.state, job.restart_count) == (JobState.RUNNING, 1)
    assert (job.address, job.url) == ("node02:2", None)
    assert job.started_at == stage.clock.now
    await send(stage, job, report(address="node01:1", restart_count=0))
    assert (await stage.store.get_job(job.id)).address == "node02:2"


async def test_tasks_of_an_array_report_with_its_token(stage: Stage) -> None:
    parent, tasks = make_array("0-1")
    epoch = await stage.add_node()
    await stage.store.create_job(parent, tasks)
    for job in tasks:
        for state in (JobState.SUBMITTING, JobState.QUEUED):
            await stage.store.transition(job.id, state)
    await stage.store.set_job_token(parent.id, hashed(TOKEN), epoch=epoch)
    await send(stage, parent, report(task=1))
    await send(stage, parent, report(task=9))
    states = [task.state for task in await stage.store.array_tasks(parent.id)]
    assert states == [JobState.QUEUED, JobState.RUNNING]


async def test_only_the_jobs_own_token_opens_it(stage: Stage) -> None:
    job = await stored(stage, make_job(), JobState.SUBMITTING, JobState.QUEUED)
    other = make_job(id=uuid4())
    assert (await send(stage, job, report(), token="wrong")).status_code == 401
    assert (await send(stage, other, report())).status_code == 401
    async with stage.client() as nobody:
        answer = await nobody.post(f"/agent/v1/jobs/{job.id}/report", json=report())
        assert answer.status_code == 401
    await stage.store.transition(job.id, JobState.CANCELLED)
    assert (await send(stage, job, report())).status_code == 401


async def test_the_hand_over_reaches_the_agent_that_waits(stage: Stage) -> None:
    job = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    url = f"/agent/v1/jobs/{job.id}/handover"
    async with stage.client(TOKEN) as agent, stage.client() as hub:
        assert (await agent.get(url)).status_code == 204
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(agent.get(url, params={"wait_s": 25}))
            payload = {"env": {"JUPYTERHUB_API_TOKEN": "x"}, "args": ["--port=1"]}
            put = await hub.put(
                f"/internal/hub/v1/jobs/{job.id}/handover", json=payload, headers=HUB
            )
            assert put.status_code == 204
        assert waiting.result().json() == payload


async def test_the_hub_learns_what_it_may_know(stage: Stage) -> None:
    session = await stored(stage, make_session(), JobState.SUBMITTING, JobState.QUEUED)
    batch = make_job()
    await stage.store.create_job(batch)
    await send(stage, session, report(address="node01:40123"))
    async with stage.client() as hub:
        hub.headers.update(HUB)
        known = (await hub.get(f"/internal/hub/v1/jobs/{session.id}")).json()
        assert known == {
            "job_id": str(session.id),
            "owner": "ada",
            "address": "node01:40123",
            "live": True,
            "confirmed": True,
            "refused": None,
        }
        live = (await hub.get("/internal/hub/v1/live")).json()
        assert live == {"job_ids": [str(session.id)]}
        assert (await hub.get(f"/internal/hub/v1/jobs/{batch.id}")).status_code == 404
        assert (await hub.get(f"/internal/hub/v1/jobs/{uuid4()}")).status_code == 404
        await stage.store.transition(session.id, JobState.CANCELLED)
        assert not (await hub.get(f"/internal/hub/v1/jobs/{session.id}")).json()["live"]
        late = await hub.put(f"/internal/hub/v1/jobs/{session.id}/handover", json={"env": {}})
        assert late.status_code == 409


@pytest.mark.parametrize("secret", ["", "wrong", "hub-secre", "hub-secret2"])
async def test_nobody_but_the_hub_may_ask(stage: Stage, secret: str) -> None:
    root = {"Authorization": f"Bearer {secret}"}
    async with stage.client() as client:
        for method, path in (
            ("GET", f"/internal/hub/v1/jobs/{uuid4()}"),
            ("PUT", f"/internal/hub/v1/jobs/{uuid4()}/handover"),
            ("GET", "/internal/hub/v1/live"),
        ):
            answer = await client.request(method, path, json={"env": {}}, headers=root)
            assert answer.status_code == 401
