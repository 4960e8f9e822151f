"""Requests of a job's program, with the token of the job."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from aitne.core.jobs.agent_protocol import MAX_MESSAGE
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.notification import Level, NotificationKind
from aitne.services.notifications import notification_texts
from aitne.services.notifications.notification_texts import MESSAGE
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_array, make_job, store_job_token
from tests.support.stage import Stage

TOKEN = "the-jobs-own-token"
BURST = 10


async def running(stage: Stage) -> Job:
    epoch = await stage.add_node()
    await stage.add_user("ada")
    job = make_job(owner="ada", project="ada", name="train")
    await stage.store.create_job(job)
    for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
        await stage.store.transition_job(job.id, state)
    now = stage.clock.now
    ends = JobChanges(allocated_at=now, started_at=now, expires_at=now + timedelta(hours=4))
    job = await stage.store.transition_job(job.id, JobState.RUNNING, ends)
    await store_job_token(stage.store, job.id, hash_secret(TOKEN), epoch=epoch)
    return job


async def test_program_learns_its_time_limit(stage: Stage) -> None:
    job = await running(stage)
    async with stage.client(TOKEN) as inside, stage.client("another") as other:
        status = await inside.get(f"/agent/v1/jobs/{job.id}/status")
        assert status.json() == {"expires_at": f"{job.expires_at:%Y-%m-%dT%H:%M:%S}Z"}
        for client, job_id in ((other, job.id), (inside, uuid4())):
            url = f"/agent/v1/jobs/{job_id}"
            assert (await client.get(f"{url}/status")).status_code == 401
            assert (await client.post(f"{url}/message", json={"text": "x"})).status_code == 401


async def test_message_notifies_the_owner_at_a_bounded_rate(stage: Stage) -> None:
    job = await running(stage)
    url = f"/agent/v1/jobs/{job.id}/message"
    async with stage.client(TOKEN) as inside:
        for body in ({}, {"text": ""}, {"text": "x" * (MAX_MESSAGE + 1)}, {"text": "x", "to": 1}):
            assert (await inside.post(url, json=body)).status_code == 422
        codes = [
            (await inside.post(url, json={"text": f"step {n}"})).status_code
            for n in range(BURST + 1)
        ]
    assert codes == [204] * BURST + [429]
    events = [each for each in await stage.store.list_job_events(job.id) if each.kind == MESSAGE]
    assert [event.data for event in events] == [{"text": f"step {n}"} for n in range(BURST)]
    notice = notification_texts.make_job_notification(events[0], job, stage.clock.now)
    assert notice is not None
    assert notification_texts.may_notify_owner(events[0])
    assert (notice.kind, notice.level) == (NotificationKind.JOB_MESSAGE, Level.INFO)
    assert (notice.title, notice.text) == ("train has a message for you", "step 0")


async def test_task_of_an_array_speaks_for_itself(stage: Stage) -> None:
    epoch = await stage.add_node()
    await stage.add_user("ada")
    array, tasks = make_array("0-2", owner="ada", project="ada")
    await stage.store.create_job(array, tasks)
    await store_job_token(stage.store, array.id, hash_secret(TOKEN), epoch=epoch)
    url = f"/agent/v1/jobs/{array.id}/message"
    async with stage.client(TOKEN) as inside:
        assert (await inside.post(url, json={"text": "half", "task": 1})).status_code == 204
        assert (await inside.post(url, json={"text": "half", "task": 7})).status_code == 404
        assert (await inside.post(url, json={"text": "half"})).status_code == 404
    events = await stage.store.list_job_events(tasks[1].id)
    assert [event.data for event in events if event.kind == MESSAGE] == [{"text": "half"}]
