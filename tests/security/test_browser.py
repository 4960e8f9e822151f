"""A page of another origin can do nothing with the portal's cookie.

Sessions are such pages. They share the portal's site, since cookies and SameSite ignore ports.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.jobs import make_job
from tests.support.stage import PASSWORD, Stage

PORTAL = "http://portal.test:8000"
FOREIGN: dict[str, dict[str, str]] = {
    "a session's page": {"Origin": "http://portal.test:8001", "Sec-Fetch-Site": "same-site"},
    "another site": {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"},
    "a sandboxed frame": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    "a prefix of the portal's": {"Origin": f"{PORTAL}.evil.test"},
    "another scheme": {"Origin": PORTAL.replace("http:", "https:")},
    "no origin at all": {},
    "only a site": {"Sec-Fetch-Site": "same-site"},
}


def as_page(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    client.headers.pop("Origin", None)
    client.headers.update(headers)


@pytest.mark.parametrize("page", FOREIGN)
async def test_a_foreign_page_changes_nothing_even_with_the_csrf_token(
    stage: Stage, page: str
) -> None:
    await stage.add_user("ada")
    job = make_job(owner="ada", project="ada")
    await stage.store.create_job(job)
    async with stage.browser("ada") as client:
        as_page(client, FOREIGN[page])
        for method, path, body in (
            ("POST", f"/api/v1/jobs/{job.id}/cancel", None),
            ("POST", "/api/v1/jobs", {"commands": ["true"]}),
            ("POST", "/api/v1/tokens", {"name": "mine"}),
            ("POST", "/api/v1/auth/login-links", None),
            ("POST", "/api/v1/auth/logout", None),
            ("PATCH", "/api/v1/users/ada", {"display_name": "x"}),
            ("DELETE", "/api/v1/tokens/x", None),
        ):
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), path
    assert (await stage.store.get_job(job.id)).cancel_requested_at is None
    assert not await stage.store.list_tokens("ada")


@pytest.mark.parametrize("page", [each for each in FOREIGN if FOREIGN[each]])
async def test_a_foreign_page_cannot_listen_or_read(stage: Stage, page: str) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        as_page(client, FOREIGN[page])
        for path in ("/api/v1/me", "/api/v1/events", "/api/v1/jobs"):
            answer = await client.get(path)
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers


async def test_no_page_is_allowed_in_by_cors(stage: Stage) -> None:
    async with stage.client() as client:
        answer = await client.options(
            "/api/v1/jobs",
            headers={
                "Origin": "http://portal.test:8001",
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "x-csrf-token",
            },
        )
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("token", [None, "", "wrong", "é"])
async def test_the_portals_own_page_needs_its_csrf_token(stage: Stage, token: str | None) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        own = client.headers.pop("X-CSRF-Token")
        headers = {} if token is None else {"X-CSRF-Token": token.encode()}
        refused = await client.post("/api/v1/tokens", json={"name": "x"}, headers=headers)
        assert refused.status_code == 403
        accepted = await client.post(
            "/api/v1/tokens", json={"name": "x"}, headers={"X-CSRF-Token": own}
        )
        assert accepted.status_code == 201


async def test_anothers_csrf_token_does_not_help(stage: Stage) -> None:
    await stage.add_user("ada")
    await stage.add_user("bob")
    async with stage.browser("ada") as ada, stage.browser("bob") as bob:
        ada.headers["X-CSRF-Token"] = bob.headers["X-CSRF-Token"]
        assert (await ada.post("/api/v1/tokens", json={"name": "x"})).status_code == 403


async def test_a_browser_that_names_no_origin_is_known_by_its_site(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        as_page(client, {"Sec-Fetch-Site": "same-origin"})
        made = await client.post("/api/v1/tokens", json={"name": "x"})
        assert made.status_code == 201


@pytest.mark.parametrize("page", [each for each in FOREIGN if FOREIGN[each]])
async def test_a_foreign_page_cannot_log_a_visitor_in(stage: Stage, page: str) -> None:
    await stage.add_user("ada")
    link = await stage.platform.identity.links.create(await stage.add_user("bob"))
    async with stage.client() as client:
        client.headers.update(FOREIGN[page])
        bodies: list[tuple[str, dict[str, Any]]] = [
            ("login", {"username": "ada", "password": PASSWORD}),
            ("login-link", {"token": link.url.partition("#link=")[2]}),
        ]
        for path, body in bodies:
            answer = await client.post(f"/api/v1/auth/{path}", json=body)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers


async def test_a_form_of_another_page_is_no_json(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        answer = await client.post(
            "/api/v1/jobs",
            content='{"commands": ["true"]}',
            headers={"Content-Type": "text/plain"},
        )
    assert answer.status_code == 422


async def test_a_cookie_of_another_platform_on_this_machine_is_not_looked_at(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        value = client.cookies[stage.cookie]
        client.cookies.clear()
        client.cookies.set("aitne_00000000", value)
        assert (await client.get("/api/v1/me")).status_code == 401


async def test_a_token_needs_no_origin_and_a_wrong_one_does_not_fall_back(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as program:
        program.headers["Origin"] = "https://evil.test"
        assert (await program.post("/api/v1/auth/login-links")).status_code == 201
    async with stage.browser("ada") as client:
        client.headers["Authorization"] = "Bearer aitne_pat_wrong"
        assert (await client.get("/api/v1/me")).status_code == 401
