"""Tokens of sessions: what ends them, and what they do not permit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from aitne.core.jobs.agent_protocol import Handover
from aitne.core.jobs.states import JobState
from aitne.core.models.project import ProjectRole
from aitne.core.models.user import Actor, Role
from aitne.services.platform.event_hub import is_event_visible
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import make_job, make_session, store_job_token
from tests.support.session_tokens import ENV, hand_over, session_token, start_session
from tests.support.stage import PASSWORD, Stage

NEW = "incorrect donkey charger paperclip"
JOB = {"name": "digits", "project": "vision", "commands": ["true"]}


@pytest.fixture
async def ada(stage: Stage) -> Actor:
    return await stage.add_user("ada", project="vision")


async def status(stage: Stage, token: str, path: str = "/me") -> int:
    async with stage.client(token) as client:
        return (await client.get(f"/api/v1{path}")).status_code


async def test_programs_of_a_session_get_address_token_and_names(stage: Stage, ada: Actor) -> None:
    session = await start_session(stage, "ada")
    env = await hand_over(stage, session.id)
    assert env["AITNE_URL"] == stage.settings.agents_url
    assert (env["AITNE_SESSION"], env["AITNE_PROJECT"]) == (str(session.id), "vision")
    async with stage.client(env["AITNE_TOKEN"]) as client:
        created = await client.post("/api/v1/jobs", json=JOB)
        assert created.status_code == 201, created.text
        job = created.json()
        assert job["owner"] == "ada"
        assert job["actions"] == ["cancel", "hold"]
        assert (await client.post(f"/api/v1/jobs/{job['id']}/cancel")).status_code == 202
    assert await hand_over(stage, session.id) == env, "JupyterHub may hand over once more"


async def _sign_out_everywhere(stage: Stage, session: UUID) -> None:
    async with stage.browser("ada") as browser:
        assert (await browser.delete("/api/v1/account/sign-ins")).status_code == 200


async def _change_password(stage: Stage, session: UUID) -> None:
    body = {"password": NEW, "current_password": PASSWORD}
    async with stage.browser("ada") as browser:
        assert (await browser.post("/api/v1/account/password", json=body)).status_code == 204


async def _be_signed_out(stage: Stage, session: UUID) -> None:
    async with stage.client(await stage.token(await stage.add_user("root", Role.ADMIN))) as client:
        assert (await client.delete("/api/v1/users/ada/sign-ins")).status_code == 200


async def _disable(stage: Stage, session: UUID) -> None:
    await stage.store.update_user("ada", disabled=True)


async def _end_session(stage: Stage, session: UUID) -> None:
    await stage.store.transition_job(session, JobState.CANCELLED)


@pytest.mark.parametrize(
    "end", [_sign_out_everywhere, _change_password, _be_signed_out, _disable, _end_session]
)
async def test_session_token_ends(
    stage: Stage, ada: Actor, end: Callable[[Stage, UUID], Awaitable[None]]
) -> None:
    await stage.add_user("bob", project="vision")
    session, others = await start_session(stage, "ada"), await session_token(stage, "bob")
    token = (await hand_over(stage, session.id))["AITNE_TOKEN"]
    assert await status(stage, token) == 200
    await end(stage, session.id)
    assert await status(stage, token) == 401
    assert await status(stage, others) == 200
    if end is _disable:
        await stage.store.update_user("ada", disabled=False)
    if end is not _end_session:
        await hand_over(stage, session.id)
        assert await status(stage, token) == 401, "a repeated hand-over brings nothing back"


@pytest.mark.parametrize("end", [_sign_out_everywhere, _change_password, _be_signed_out, _disable])
async def test_session_gets_no_valid_token_after_the_logins_of_its_owner_ended(
    stage: Stage, ada: Actor, end: Callable[[Stage, UUID], Awaitable[None]]
) -> None:
    """A session that waited at the time could have been started with one of the ended logins."""
    waiting = make_session(owner="ada", project="vision")
    await stage.store.create_job(waiting)
    session = await start_session(stage, "ada")
    await end(stage, session.id)
    if end is _disable:
        await stage.store.update_user("ada", disabled=False)
    assert await status(stage, (await hand_over(stage, session.id))["AITNE_TOKEN"]) == 401
    for state in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING):
        await stage.store.transition_job(session.id, state)
    restarted = (await hand_over(stage, session.id))["AITNE_TOKEN"]
    assert await status(stage, restarted) == 401
    assert await status(stage, (await hand_over(stage, waiting.id))["AITNE_TOKEN"]) == 401
    assert await status(stage, await session_token(stage, "ada")) == 200


async def test_concurrent_hand_overs_contain_one_valid_token(stage: Stage, ada: Actor) -> None:
    session = await start_session(stage, "ada")
    token_hash, epoch = hash_secret("agent"), await stage.add_node()
    await store_job_token(stage.store, session.id, token_hash, epoch=epoch)
    handovers = stage.platform.handovers
    waiting = [
        asyncio.create_task(handovers.handover("agent", session.id, wait_s=9)) for _ in "1234"
    ]
    await asyncio.gather(*(handovers.set_handover(session.id, Handover(env=ENV)) for _ in range(8)))
    given = await asyncio.gather(*waiting)
    (token,) = {each.env["AITNE_TOKEN"] for each in given if each is not None}
    assert await status(stage, token) == 200


async def test_login_and_logout_of_one_browser_keep_session_token(stage: Stage, ada: Actor) -> None:
    token = await session_token(stage, "ada")
    async with stage.browser("ada") as browser:
        await browser.post("/api/v1/auth/logout")
    assert await status(stage, token) == 200


async def test_restarted_session_has_another_token(stage: Stage, ada: Actor) -> None:
    session = await start_session(stage, "ada")
    old = (await hand_over(stage, session.id))["AITNE_TOKEN"]
    for state in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING):
        await stage.store.transition_job(session.id, state)
    new = (await hand_over(stage, session.id))["AITNE_TOKEN"]
    assert [await status(stage, token) for token in (old, new)] == [401, 200]


async def test_session_token_shows_only_jobs_of_its_owner(stage: Stage, ada: Actor) -> None:
    """Also to a manager and to an administrator, who see more with other credentials."""
    await stage.add_user("mia", project="vision")
    await stage.store.set_member_role("vision", "mia", ProjectRole.MANAGER, actor="root")
    await stage.add_user("root", Role.ADMIN)
    job = (await stage.store.create_job(make_job(owner="ada", project="vision"))).job
    for name, hidden in (("mia", 403), ("root", 404)):
        async with stage.client(await session_token(stage, name)) as client:
            for path in ("jobs", "sessions"):
                page = (await client.get(f"/api/v1/{path}")).json()
                assert {item["owner"] for item in page["items"]} == {name}
            counts = (await client.get("/api/v1/jobs:count")).json()
            assert counts["total"] == 1
            assert (await client.get("/api/v1/jobs?owner=ada")).status_code == 403
            assert (await client.get(f"/api/v1/jobs/{job.id}")).status_code == hidden
    created = (await stage.store.list_job_events(job.id))[0]
    mia = Actor(user=await stage.store.get_user("mia"), projects=frozenset({"vision"}))
    assert is_event_visible(created, mia)
    assert not is_event_visible(created, mia.model_copy(update={"session": job.id}))


async def test_session_token_starts_no_further_session(stage: Stage, ada: Actor) -> None:
    """Its token would be valid for longer than the first one's."""
    old = make_session(owner="ada", project="vision", state=JobState.COMPLETED)
    await stage.store.create_job(old)
    async with stage.client(await session_token(stage, "ada")) as client:
        for path, body in (
            ("sessions", {"template": "jupyterlab"}),
            ("jobs", {"template": "jupyterlab"}),
            (f"jobs/{old.id}/resubmit", None),
            (f"sessions/{old.id}/relaunch", None),
        ):
            answer = await client.post(f"/api/v1/{path}", json=body)
            assert answer.status_code == 403, f"{path}: {answer.text}"
            assert "token of a session" in answer.json()["detail"]


async def test_session_token_gives_jobs_only_secrets_of_the_session(
    stage: Stage, ada: Actor
) -> None:
    for name in ("OWN", "OTHER"):
        await stage.platform.user_secrets.set_secret(ada, name, "hidden")
    session = await start_session(stage, "ada", spec={"secrets": ("OWN",)})
    async with stage.client((await hand_over(stage, session.id))["AITNE_TOKEN"]) as client:
        own = await client.post("/api/v1/jobs", json=JOB | {"secrets": ["OWN"]})
        assert own.status_code == 201, own.text
        other = await client.post("/api/v1/jobs", json=JOB | {"secrets": ["OWN", "OTHER"]})
    assert other.status_code == 403
    assert "the secrets OTHER" in other.json()["detail"]


async def test_audit_log_names_the_session_of_a_session_token(stage: Stage, ada: Actor) -> None:
    session = await start_session(stage, "ada")
    async with stage.client((await hand_over(stage, session.id))["AITNE_TOKEN"]) as client:
        await client.post("/api/v1/jobs", json=JOB)
        await client.post("/api/v1/tokens", json={"name": "mine", "scopes": ["read"]})
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as client:
        entries = (await client.get("/api/v1/admin/audit?actor=ada")).json()["items"]
    via = {entry["action"]: (entry["outcome"], entry["details"]) for entry in entries}
    for action, outcome in (("create_job", "allowed"), ("create_token", "denied")):
        assert via[action][0] == outcome
        assert via[action][1].items() >= {"via": "session", "session": str(session.id)}.items()
