"""Secrets of users: what is stored, shown and given to jobs."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from aitne.core.jobs.agent_protocol import Handover
from aitne.core.jobs.env_visibility import HIDDEN
from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Scope
from aitne.core.models.user import Actor, Role
from aitne.core.models.user_secret import MOST_SECRETS
from aitne.services.platform.shared_secrets import hash_secret
from tests.support.jobs import store_job_token
from tests.support.stage import Stage

VALUE = "s3cr3t-of-ada"
FILE = {"name": "train", "commands": ["true"], "secrets": ["API_KEY"]}


async def database(stage: Stage) -> bytes:
    """Return all bytes of the database's files."""
    await stage.store.close()
    return b"".join(path.read_bytes() for path in stage.settings.data_dir.glob("aitne.db*"))


async def submitted(stage: Stage, owner: Actor, **more: Any) -> UUID:
    async with stage.client(await stage.token(owner)) as client:
        answer = await client.post("/api/v1/jobs", json=FILE | more)
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["id"])


async def test_secret_is_never_shown_and_never_stored_in_clear_text(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(ada)) as client:
        stored = await client.put("/api/v1/secrets/API_KEY", json={"value": VALUE})
        assert stored.status_code == 200, stored.text
        listed = await client.get("/api/v1/secrets")
        assert [each["name"] for each in listed.json()["items"]] == ["API_KEY"]
        job = await submitted(stage, ada)
        shown = [
            await client.get(f"/api/v1/jobs/{job}{part}")
            for part in ("", "/file", "/snapshot", "/script", "/events", f"/compare/{job}")
        ]
    assert shown[0].json()["secrets"] == ["API_KEY"]
    assert shown[1].json()["file"]["secrets"] == ["API_KEY"]
    assert all(VALUE not in answer.text for answer in [stored, listed, *shown])
    async with stage.client(await stage.token(root)) as client:
        audit = (await client.get("/api/v1/admin/audit")).text
        assert '"put_secret"' in audit
        assert VALUE not in audit
        assert (await client.get("/api/v1/secrets")).json()["items"] == []
    assert VALUE.encode() not in await database(stage)


async def test_only_the_jobs_own_token_reads_the_values(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await stage.platform.user_secrets.set_secret(ada, "API_KEY", VALUE)
    job, other = await submitted(stage, ada), await submitted(stage, ada, secrets=[])
    epoch = await stage.add_node()
    for each, token in ((job, "token"), (other, "another")):
        await store_job_token(stage.store, each, hash_secret(token), epoch=epoch)
        for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING):
            await stage.store.transition_job(each, state)
    path = f"/agent/v1/jobs/{job}/secrets"

    async def answer(token: str, path: str = path) -> tuple[int, Any]:
        async with stage.client(token) as client:
            found = await client.get(path)
        return found.status_code, found.json()

    assert await answer("token") == (200, {"env": {"API_KEY": VALUE}})
    assert (await answer("another"))[0] == 401
    assert (await answer(await stage.token(ada)))[0] == 401
    assert await answer("another", f"/agent/v1/jobs/{other}/secrets") == (200, {"env": {}})
    await stage.platform.user_secrets.set_secret(ada, "API_KEY", "changed")
    assert (await answer("token"))[1] == {"env": {"API_KEY": "changed"}}
    await stage.platform.user_secrets.delete(ada, "API_KEY")
    status, problem = await answer("token")
    assert (status, problem["code"]) == (409, "conflict")
    assert "was deleted" in problem["detail"]
    await stage.store.transition_job(job, JobState.COMPLETED)
    assert (await answer("token"))[0] == 401


async def test_job_with_an_unknown_secret_is_refused(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await stage.platform.user_secrets.set_secret(await stage.add_user("eve"), "API_KEY", VALUE)
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.post("/api/v1/jobs", json=FILE)
        assert answer.status_code == 422
        (problem,) = answer.json()["problems"]
        assert problem["field"] == "secrets[0]"
        assert "aitne secret set API_KEY" in problem["message"]
        for name in ("AITNE_TOKEN", "not a name", "SLURM_X"):
            stored = await client.put(f"/api/v1/secrets/{name}", json={"value": "x"})
            assert stored.status_code == 422, name
        for value in ("", "nul \0", "x" * 40_000):
            stored = await client.put("/api/v1/secrets/KEY", json={"value": value})
            assert stored.status_code == 422


async def test_number_of_secrets_is_limited(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        statuses = [
            (await client.put(f"/api/v1/secrets/KEY_{n}", json={"value": "x"})).status_code
            for n in range(MOST_SECRETS + 1)
        ]
        assert statuses == [200] * MOST_SECRETS + [409]
        assert (await client.put("/api/v1/secrets/KEY_0", json={"value": "y"})).status_code == 200
        assert (await client.delete("/api/v1/secrets/KEY_1")).status_code == 204
        assert (await client.delete("/api/v1/secrets/KEY_1")).status_code == 404
    async with stage.client(await stage.token(ada, Scope.READ)) as client:
        assert (await client.put("/api/v1/secrets/A", json={"value": "x"})).status_code == 403


@pytest.mark.parametrize("other", ["bob", "root"])
async def test_values_of_env_are_shown_to_the_owner_alone(stage: Stage, other: str) -> None:
    ada = await stage.add_user("ada", project="vision")
    role = Role.ADMIN if other == "root" else Role.USER
    actors = {"ada": ada, other: await stage.add_user(other, role, project="vision")}
    job = await submitted(stage, ada, project="vision", secrets=[], env={"KEY": VALUE})
    for name in ("ada", other, "ada"):
        async with stage.client(await stage.token(actors[name])) as client:
            pages = {
                path: (await client.get(f"/api/v1/jobs{path}")).text
                for path in (
                    "",
                    f"/{job}",
                    f"/{job}/file",
                    f"/{job}/snapshot",
                    f"/{job}/compare/{job}",
                    f"/{job}/script",
                )
            }
        assert any(VALUE in text for text in pages.values()) is (name == "ada"), name
        assert json.loads(pages[f"/{job}"])["env"] == {"KEY": VALUE if name == "ada" else HIDDEN}
    impersonating = ada.model_copy(update={"impersonator": "root"})
    assert (await stage.platform.jobs.get(impersonating, job)).spec.env == {"KEY": HIDDEN}


async def test_hand_over_of_a_session_is_not_stored_in_clear_text(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as client:
        session = await client.post("/api/v1/sessions", json={"template": "jupyterlab"})
    job = UUID(session.json()["id"])
    given = Handover(env={"JUPYTERHUB_API_TOKEN": VALUE})
    epoch = await stage.add_node()
    await store_job_token(stage.store, job, hash_secret("token"), epoch=epoch)
    await stage.platform.handovers.set_handover(job, given)
    handed = await stage.platform.handovers.handover("token", job)
    assert handed is not None
    assert handed.env["JUPYTERHUB_API_TOKEN"] == VALUE
    content = await database(stage)
    assert VALUE.encode() not in content
    assert handed.env["AITNE_TOKEN"].encode() not in content
