"""A credential that comes from another one never outlives it, and its owner learns of it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from aitne.core.models.access_token import Scope
from aitne.core.models.user import Role
from aitne.core.users.permissions import REAUTHENTICATION_S
from aitne.services.notifications import notification_texts
from tests.support.stage import PASSWORD, Stage


async def sign_in_by_token(program: httpx.AsyncClient, browser: httpx.AsyncClient) -> None:
    """Log a browser in by a login link that is made with the token of ``program``."""
    await open_link(browser, await link_of(program))


async def security_events(stage: Stage, owner: str) -> list[dict[str, Any]]:
    events = await stage.store.list_events_after(0, limit=1_000)
    mine = (event for event in events if event.owner == owner)
    return [event.data for event in mine if event.kind == "account.security"]


async def test_a_sign_in_never_outlives_its_token(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    token = await stage.token(ada, lifetime_s=60)
    async with stage.client(token) as program, stage.client() as browser:
        await sign_in_by_token(program, browser)
        assert (await browser.get("/api/v1/me")).status_code == 200
        body = {"name": "x", "scopes": ["read"]}
        await reauthenticate(browser)
        for lifetime, status in ((None, 403), ("1h", 403), ("30s", 201)):
            answer = await browser.post("/api/v1/tokens", json={**body, "expires_in": lifetime})
            assert answer.status_code == status, answer.text
        enrolment = await browser.post("/api/v1/account/second-factor")
        assert enrolment.status_code == 403, enrolment.text
        answer = await browser.post("/api/v1/auth/login-links")
        assert answer.status_code == 201, "a link that ends with the token"
        stage.clock.move(61)
        assert (await browser.get("/api/v1/me")).status_code == 401
        used = await browser.post(
            "/api/v1/auth/login-link", json={"token": answer.json()["url"].partition("=")[2]}
        )
        assert used.status_code == 401


@pytest.mark.parametrize(("role", "allowed"), [(Role.USER, False), (Role.ADMIN, True)])
async def test_first_password_by_a_token_is_for_endless_ones_of_administrators(
    stage: Stage, role: Role, allowed: bool
) -> None:
    root = stage.actor("root", Role.ADMIN)
    bob = await stage.platform.users.create(root, name="bob", role=role)
    actor = stage.actor("bob").model_copy(update={"user": bob})
    change = {"password": "a new long passphrase"}
    for lifetime_s, status in ((60, 403), (None, 200 if allowed else 403)):
        async with stage.client(await stage.token(actor, lifetime_s=lifetime_s)) as program:
            answer = await program.patch("/api/v1/users/bob", json=change)
            assert answer.status_code == status, answer.text
            if status == 403:
                own = await program.post("/api/v1/account/password", json=change)
                assert own.status_code == 403, own.text


async def test_token_to_write_makes_no_credentials_and_ends_none(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with (
        stage.browser("ada") as browser,
        stage.client(await stage.token(ada)) as program,
        stage.client(await stage.token(ada)) as other,
        stage.client() as linked,
    ):
        (sign_in,) = (await browser.get("/api/v1/account/sign-ins")).json()["items"]
        tokens = (await program.get("/api/v1/tokens")).json()["items"]
        requests = [
            ("POST", "/tokens", {"name": "x"}),
            *(("DELETE", f"/tokens/{token['id']}", None) for token in tokens),
            ("DELETE", f"/account/sign-ins/{sign_in['id']}", None),
            ("DELETE", "/account/sign-ins", None),
            ("POST", "/account/second-factor", None),
        ]
        await sign_in_by_token(program, linked)
        for method, path, body in requests:
            answer = await linked.request(method, f"/api/v1{path}", json=body)
            assert answer.json()["code"] == "reauthentication_required", path
        done = []
        for method, path, body in requests:
            answer = await program.request(method, f"/api/v1{path}", json=body)
            if answer.status_code != 403:
                done.append((method, answer.status_code))
                break
            assert "requires a login of the portal" in answer.json()["detail"], path
        assert done == [("DELETE", 204)], "a token may revoke itself"
        assert (await browser.get("/api/v1/me")).status_code == 200
        assert (await program.get("/api/v1/me")).status_code == 401
        for method, path, body in requests[3:]:
            answer = await other.request(method, f"/api/v1{path}", json=body)
            assert answer.status_code == 403, path
        assert (await browser.delete("/api/v1/account/sign-ins")).status_code == 200


async def reauthenticate(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/api/v1/account/reauthenticate", json={"password": PASSWORD})
    assert answer.status_code == 204, answer.text


@pytest.mark.parametrize("used", [True, False])
async def test_revoking_a_token_ends_the_sign_ins_from_it(stage: Stage, used: bool) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada)) as program, stage.client() as browser:
        (token,) = (await program.get("/api/v1/tokens")).json()["items"]
        if used:
            await sign_in_by_token(program, browser)
            assert (await program.delete(f"/api/v1/tokens/{token['id']}")).status_code == 204
            assert (await browser.get("/api/v1/me")).status_code == 401
        else:
            link = (await program.post("/api/v1/auth/login-links")).json()["url"]
            assert (await program.delete(f"/api/v1/tokens/{token['id']}")).status_code == 204
            body = {"token": link.partition("#link=")[2]}
            answer = await browser.post("/api/v1/auth/login-link", json=body)
            assert answer.status_code == 401
    assert await stage.store.list_sign_ins("ada", stage.clock.now) == []


async def test_a_token_for_another_user_shows_its_creator(stage: Stage) -> None:
    root, _ = await stage.add_user("root", Role.ADMIN), await stage.add_user("bob")
    async with stage.client(await stage.token(root)) as admin:
        body = {"name": "help", "user": "bob", "scopes": ["read", "write"]}
        issued = (await admin.post("/api/v1/tokens", json=body)).json()
        assert issued["created_by"] == "root"
        async with stage.client(issued["token"]) as program, stage.client() as browser:
            await sign_in_by_token(program, browser)
            await reauthenticate(browser)
            child = await browser.post("/api/v1/tokens", json={"name": "child"})
            assert child.json()["created_by"] == "root"
        async with stage.browser("bob") as bob:
            own = (await bob.post("/api/v1/tokens", json={"name": "own"})).json()
            assert own["created_by"] is None
            listed = (await bob.get("/api/v1/tokens")).json()["items"]
        assert {each["name"]: each["created_by"] for each in listed} == {
            "help": "root",
            "child": "root",
            "own": None,
        }
        answer = await admin.get("/api/v1/admin/audit")
        assert answer.status_code == 200, answer.text
        entries = answer.json()["items"]
    created = {e["details"]["name"]: e for e in entries if e["action"] == "create_token"}
    assert (created["help"]["actor"], created["help"]["details"]["owner"]) == ("root", "bob")
    assert (created["child"]["actor"], created["child"]["details"]["token_created_by"]) == (
        "bob",
        "root",
    )
    assert "token_created_by" not in created["own"]["details"]


async def test_the_owner_is_notified_of_new_credentials(stage: Stage) -> None:
    await stage.add_user("root", Role.ADMIN)
    await stage.add_user("bob")
    async with stage.browser("bob") as bob:
        assert [each["change"] for each in await security_events(stage, "bob")] == ["sign_in"]
        login = {"username": "bob", "password": PASSWORD}
        assert (await bob.post("/api/v1/auth/login", json=login)).status_code == 200
        assert len(await security_events(stage, "bob")) == 1, "this browser is known"
    async with stage.browser("root") as admin:
        body = {"name": "help", "user": "bob", "scopes": [Scope.READ]}
        assert (await admin.post("/api/v1/tokens", json=body)).status_code == 201
        change = {"password": "another long passphrase"}
        assert (await admin.patch("/api/v1/users/bob", json=change)).status_code == 200
    events = await stage.store.list_events_after(0, limit=1_000)
    titles = [
        notification_texts.make_account_security_notification(event).title
        for event in events
        if event.kind == "account.security" and event.owner == "bob"
    ]
    assert titles[1:] == ["New token: help (created by root)", "Your password was changed"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/tokens", {"name": "x"}),
        ("POST", "/api/v1/webhooks", {"url": "https://93.184.215.14/hook"}),
        ("PUT", "/api/v1/notifications/settings", {"mail": "new@example.org", "choices": {}}),
        ("POST", "/api/v1/account/second-factor", None),
    ],
)
async def test_new_credentials_need_a_recent_authentication(
    stage: Stage, method: str, path: str, body: dict[str, Any] | None
) -> None:
    ada = await stage.add_user("ada")
    async with stage.browser("ada") as browser:
        assert (await browser.request(method, path, json=body)).is_success
        stage.clock.move(REAUTHENTICATION_S + 1)
        body = body and body | ({"mail": "other@example.org"} if "mail" in body else {})
        refused = await browser.request(method, path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "reauthentication_required")
        assert (await browser.get("/api/v1/me")).status_code == 200, "still logged in"
        proof = "/api/v1/account/reauthenticate"
        for wrong, status in (({"password": "wrong"}, 403), ({}, 422), ({"code": "000000"}, 403)):
            assert (await browser.post(proof, json=wrong)).status_code == status, wrong
        assert (await browser.request(method, path, json=body)).status_code == 403
        assert (await browser.post(proof, json={"password": PASSWORD})).status_code == 204
        assert (await browser.request(method, path, json=body)).is_success
    async with stage.client(await stage.token(ada)) as program:
        assert (await program.post(proof, json={"password": PASSWORD})).status_code == 409


async def link_of(client: httpx.AsyncClient) -> str:
    link = await client.post("/api/v1/auth/login-links")
    assert link.status_code == 201, link.text
    return str(link.json()["url"])


async def open_link(browser: httpx.AsyncClient, url: str) -> None:
    browser.headers["Origin"] = str(browser.base_url).rstrip("/")
    body = {"token": url.partition("#link=")[2]}
    answer = await browser.post("/api/v1/auth/login-link", json=body)
    assert answer.status_code == 200, answer.text
    browser.headers["X-CSRF-Token"] = answer.json()["csrf_token"]


async def test_a_login_by_an_old_browsers_link_is_as_old_as_that_browsers(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as browser, stage.client() as other:
        await open_link(other, await link_of(browser))
        assert (await other.post("/api/v1/tokens", json={"name": "x"})).status_code == 201
        stage.clock.move(REAUTHENTICATION_S + 1)
        await open_link(other, await link_of(browser))
        refused = await other.post("/api/v1/tokens", json={"name": "y"})
        assert refused.json()["code"] == "reauthentication_required"


async def test_a_new_login_link_confirms_an_administrator_without_a_password(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    await stage.add_user("ada", Role.ADMIN)
    ada = stage.actor("ada", Role.ADMIN)
    proof = "/api/v1/account/reauthenticate"
    async with (
        stage.client(await stage.token(root)) as program,
        stage.client(await stage.token(ada)) as of_another,
        stage.client() as browser,
    ):
        await open_link(browser, await link_of(program))
        stage.clock.move(REAUTHENTICATION_S + 1)
        used = await link_of(program)
        await open_link(browser, used)
        stage.clock.move(REAUTHENTICATION_S + 1)
        assert (await browser.post("/api/v1/tokens", json={"name": "x"})).status_code == 403
        for wrong in (used, await link_of(of_another), await link_of(browser), "x", "#link="):
            answer = await browser.post(proof, json={"link": wrong})
            assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), wrong
        assert (await browser.get("/api/v1/me")).status_code == 200, "still logged in"
        fresh = await link_of(program)
        assert (await browser.post(proof, json={"link": f" {fresh}\n"})).status_code == 204
        assert (await browser.post("/api/v1/tokens", json={"name": "x"})).status_code == 201
        assert (await browser.post(proof, json={"link": fresh})).status_code == 403, "used once"
        bare = (await link_of(program)).partition("#link=")[2]
        assert (await browser.post(proof, json={"link": bare})).status_code == 204


@pytest.mark.parametrize("way", ["user", "ends", "revoked"])
async def test_a_login_link_that_may_not_lead_to_credentials_confirms_nothing(
    stage: Stage, way: str
) -> None:
    ada = await stage.add_user("ada", Role.USER if way == "user" else Role.ADMIN)
    async with (
        stage.client(await stage.token(ada, lifetime_s=60 if way == "ends" else None)) as program,
        stage.browser("ada") as browser,
    ):
        link = await link_of(program)
        if way == "revoked":
            (token,) = (await browser.get("/api/v1/tokens")).json()["items"]
            assert (await browser.delete(f"/api/v1/tokens/{token['id']}")).status_code == 204
        answer = await browser.post("/api/v1/account/reauthenticate", json={"link": link})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


async def test_guesses_of_the_password_at_a_login_are_limited(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as browser:
        answers = [
            await browser.post("/api/v1/account/reauthenticate", json={"password": f"wrong{n}"})
            for n in range(stage.settings.auth.max_failures + 1)
        ]
    assert [each.status_code for each in answers][-2:] == [403, 429]
