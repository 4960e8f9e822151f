"""Every verb of every object, tried by every role, has the result that the policy's table states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aitne.core.models.access_token import Scope
from aitne.core.models.job import Job
from aitne.core.models.user import Role
from tests.support.jobs import make_job, make_session
from tests.support.stage import Stage

Body = dict[str, Any] | None
Statuses = tuple[int | None, int | None, int | None, int | None]
# verb, path, body, does it need a session; then the status for: owner, member of the project,
# stranger, administrator.
VERBS: dict[str, tuple[str, str, Body, bool, Statuses]] = {
    "get": ("GET", "/jobs/{id}", None, False, (200, 200, 404, 200)),
    "cancel": ("POST", "/jobs/{id}/cancel", None, False, (202, 403, 404, 202)),
    "resubmit": ("POST", "/jobs/{id}/resubmit", None, False, (201, 403, 404, 403)),
    "terminal": ("POST", "/jobs/{id}/terminal", {}, False, (409, 403, 404, 403)),
    "script": ("GET", "/jobs/{id}/script", None, False, (200, 200, 404, 200)),
    "metrics": ("GET", "/jobs/{id}/metrics", None, False, (200, 200, 404, 200)),
    "logs": ("GET", "/jobs/{id}/logs", None, False, (200, 200, 404, 200)),
    "follow": ("GET", "/jobs/{id}/logs?follow=true", None, False, (None, None, 404, None)),
    "events": ("GET", "/jobs/{id}/events", None, False, (200, 200, 404, 200)),
    "get session": ("GET", "/sessions/{id}", None, True, (200, 200, 404, 200)),
    "open": ("POST", "/sessions/{id}/open", None, True, (200, 403, 404, 403)),
    "extend": ("POST", "/sessions/{id}/extend", {"duration": "1m"}, True, (200, 403, 404, 200)),
    "keep": ("POST", "/sessions/{id}/keep", None, True, (200, 403, 404, 200)),
    "stop": ("POST", "/sessions/{id}/stop", None, True, (202, 403, 404, 202)),
}
WHO = ("owner", "member", "stranger", "administrator")


async def people(stage: Stage) -> dict[str, str]:
    """Create the users of the roles; return their tokens."""
    made = {
        "owner": await stage.add_user("ada", project="vision"),
        "member": await stage.add_user("bob", project="vision"),
        "stranger": await stage.add_user("eve"),
        "administrator": await stage.add_user("root", Role.ADMIN),
    }
    return {who: await stage.token(actor) for who, actor in made.items()}


async def prepared(stage: Stage, make: Callable[..., Job], session: bool) -> Job:
    await stage.add_node()
    job = make(owner="ada", project="vision")
    await stage.store.create_job(job)
    if session:
        await stage.make_ready(job)
    return job


CASES = [
    (verb, who, status)
    for verb, (*_, statuses) in VERBS.items()
    for who, status in zip(WHO, statuses, strict=True)
    if status is not None  # an answer without an end, which other tests read
]


@pytest.mark.parametrize(("verb", "who", "expected"), CASES)
async def test_a_verb(
    peopled: Stage, tokens: dict[str, str], verb: str, who: str, expected: int
) -> None:
    method, path, body, session, _ = VERBS[verb]
    job = await prepared(peopled, make_session if session else make_job, session)
    async with peopled.client(tokens[who]) as client:
        answer = await client.request(method, f"/api/v1{path.format(id=job.id)}", json=body)
    assert answer.status_code == expected, answer.text
    if expected >= 400:
        now = await peopled.store.get_job(job.id)
        assert now.cancel_requested_at is None
        assert now.version == job.version or session


@pytest.mark.parametrize("verb", VERBS)
async def test_no_verb_works_without_a_login(stage: Stage, verb: str) -> None:
    method, path, body, session, _ = VERBS[verb]
    job = await prepared(stage, make_session if session else make_job, session)
    async with stage.client() as client:
        answer = await client.request(method, f"/api/v1{path.format(id=job.id)}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert "www-authenticate" in answer.headers


@pytest.mark.parametrize("verb", [each for each in VERBS if VERBS[each][0] == "POST"])
async def test_a_token_that_may_only_read_changes_nothing(stage: Stage, verb: str) -> None:
    method, path, body, session, _ = VERBS[verb]
    ada = await stage.add_user("ada", project="vision")
    job = await prepared(stage, make_session if session else make_job, session)
    async with stage.client(await stage.token(ada, Scope.READ)) as client:
        answer = await client.request(method, f"/api/v1{path.format(id=job.id)}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


async def test_an_administrators_ordinary_token_sees_what_a_user_sees(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    job = await prepared(stage, make_job, False)
    async with stage.client(await stage.token(root, Scope.READ, Scope.WRITE)) as client:
        assert (await client.get(f"/api/v1/jobs/{job.id}")).status_code == 404
        assert (await client.get("/api/v1/jobs")).json()["total"] == 0
        assert (await client.get("/api/v1/users")).status_code == 403


@pytest.mark.parametrize(("who", "count"), [*zip(WHO, (1, 1, 0, 1), strict=True)])
async def test_lists_show_what_one_may_see(
    peopled: Stage, tokens: dict[str, str], who: str, count: int
) -> None:
    await prepared(peopled, make_job, False)
    async with peopled.client(tokens[who]) as client:
        for path in ("/jobs", "/jobs?owner=ada", "/jobs?project=vision"):
            page = (await client.get(f"/api/v1{path}")).json()
            assert (len(page["items"]), page["total"]) == (count, count)


async def test_job_in_project_of_other_users_is_refused(stage: Stage) -> None:
    await stage.add_node()
    await stage.add_user("ada", project="vision")
    eve = await stage.add_user("eve")
    async with stage.client(await stage.token(eve)) as client:
        for path in ("jobs", "jobs:plan"):
            answer = await client.post(
                f"/api/v1/{path}", json={"commands": ["true"], "project": "vision"}
            )
            assert answer.status_code in (403, 404, 422)
            assert "vision" in answer.json()["detail"]
        assert (await client.get("/api/v1/jobs")).json()["total"] == 0
