"""Requests of a session's page through its own server, with the token of the job."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from aitne.core.jobs.agent_protocol import VERSION
from aitne.core.jobs.states import JobState
from aitne.core.models.audit import AuditFilter
from aitne.core.models.job import Job, JobChanges
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_job, make_rank_group, make_session, store_job_token
from tests.support.stage import Stage

TOKEN = "the-jobs-own-token"


async def running(stage: Stage, job: Job) -> Job:
    epoch = await stage.add_node()
    await stage.add_user("ada")
    await stage.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
        job = await stage.store.transition_job(job.id, state)
    now = stage.clock.now
    job = await stage.store.transition_job(
        job.id,
        JobState.RUNNING,
        JobChanges(allocated_at=now, started_at=now, expires_at=now + timedelta(hours=4)),
    )
    await store_job_token(stage.store, job.id, hash_secret(TOKEN), epoch=epoch)
    return job


async def test_a_session_knows_its_end_and_what_it_uses(stage: Stage) -> None:
    spec = {"resources": {"gpu": {"count": 2, "type": None}}}
    job = await running(stage, make_session(owner="ada", project="ada", name="lab", spec=spec))
    url = f"/agent/v1/jobs/{job.id}/session"
    async with stage.client(TOKEN) as inside:
        status = (await inside.get(url)).json()
        assert status["name"] == "lab"
        assert status["portal_url"] == f"{stage.settings.portal_url}/jobs/{job.id}"
        assert status["cancel_requested"] is False
        assert status["expires_at"] == f"{job.expires_at:%Y-%m-%dT%H:%M:%S}Z"
        assert (status["memory_bytes"], status["gpu_utilization"]) == (None, None)
        gpus = [{"index": n, "utilization": n / 2, "memory_bytes": 1} for n in range(2)]
        sample = {
            "time": stage.clock.now.isoformat(),
            "node": "node01",
            "cpu": 1,
            "memory_bytes": 1000,
            "gpu": gpus,
        }
        report = {"protocol": 1, "attempt": 1, "phase": "running", "node": "node01"}
        await inside.post(f"/agent/v1/jobs/{job.id}/report", json={**report, "samples": [sample]})
        status = (await inside.get(url)).json()
        assert (status["memory_bytes"], status["gpus"]) == (1000, 2)
        assert status["gpu_utilization"] == pytest.approx(0.25)
        # What was measured long ago is not in use now.
        stage.clock.move(600)
        assert (await inside.get(url)).json()["memory_bytes"] is None
        await stage.store.request_cancel(job.id, stage.clock.now, "Stopped by ada.")
        assert (await inside.get(url)).json()["cancel_requested"] is True


async def test_session_knows_its_rank_groups_that_have_not_ended(stage: Stage) -> None:
    session = await running(stage, make_session(owner="ada", project="ada", name="lab"))
    first, second, ended = [make_rank_group(session) for _ in range(3)]
    for group in (first, ended, second):
        stage.clock.move(1)
        await stage.store.create_job(group.model_copy(update={"created_at": stage.clock.now}))
    await stage.store.create_job(make_job(owner="ada", project="ada"))
    await stage.store.transition_job(ended.id, JobState.CANCELLED)
    for state in (JobState.SUBMITTING, JobState.QUEUED):
        await stage.store.transition_job(second.id, state)
    await stage.store.request_cancel(second.id, stage.clock.now, "Released by ada.")
    async with stage.client(TOKEN) as inside:
        status = (await inside.get(f"/agent/v1/jobs/{session.id}/session")).json()
    ranks = [(group["job_id"], group["ranks"], group["nodes"]) for group in status["ranks"]]
    assert ranks == [(str(first.id), 2, 1), (str(second.id), 2, 1)]
    assert [group["cancel_requested"] for group in status["ranks"]] == [False, True]


async def test_report_of_a_later_agent_is_used_or_refused_but_never_misread(stage: Stage) -> None:
    job = await running(stage, make_session(owner="ada", project="ada"))
    url = f"/agent/v1/jobs/{job.id}/report"
    report = {"protocol": VERSION, "attempt": 1, "phase": "running", "node": "node01"}
    async with stage.client(TOKEN) as inside:
        assert (await inside.post(url, json=report | {"added_later": 1})).status_code == 200
        refused = await inside.post(url, json=report | {"protocol": VERSION + 1})
    assert refused.status_code == 422
    assert "another release" in refused.json()["detail"]


async def test_a_session_is_extended_from_inside_as_its_owner(stage: Stage) -> None:
    job = await running(stage, make_session(owner="ada", project="ada"))
    url = f"/agent/v1/jobs/{job.id}/session/extend"
    async with stage.client(TOKEN) as inside:
        assert (await inside.post(url, json={"duration_s": 3_600})).status_code == 200
        assert await stage.store.find_requested_time_limit(job.id) == 5 * 3_600
        for body in ({}, {"duration_s": 0}, {"duration_s": "1h"}, {"duration_s": 1, "x": 1}):
            assert (await inside.post(url, json=body)).status_code == 422
    entries = await stage.store.list_audit_entries_after(0, AuditFilter(action="extend_session"))
    assert [(entry.actor, entry.object) for entry in entries][:1] == [("ada", str(job.id))]
    await stage.store.update_user("ada", disabled=True)
    async with stage.client(TOKEN) as inside:
        assert (await inside.post(url, json={"duration_s": 3_600})).status_code in (401, 403)


async def test_only_the_sessions_own_token_is_accepted(stage: Stage) -> None:
    session = await running(stage, make_session(owner="ada", project="ada"))
    batch = make_job(owner="ada", project="ada")
    await stage.store.create_job(batch)
    async with stage.client("another") as other, stage.client(TOKEN) as inside:
        for client, id_ in ((other, session.id), (inside, batch.id), (inside, uuid4())):
            for method, path in (("GET", "session"), ("POST", "session/extend")):
                answer = await client.request(
                    method, f"/agent/v1/jobs/{id_}/{path}", json={"duration_s": 60}
                )
                assert answer.status_code == 401
    assert await stage.store.find_requested_time_limit(session.id) is None
