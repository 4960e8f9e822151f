from __future__ import annotations

import pytest
from pydantic import ValidationError

from aitne.core.models.access_token import Scope
from aitne.core.models.user import Role
from aitne.core.settings import Settings
from tests.support.stage import PASSWORD, Stage


async def test_login_sets_the_cookie_and_tells_who_one_is(stage: Stage) -> None:
    await stage.add_user("ada", project="vision")
    async with stage.client() as client:
        answer = await client.post(
            "/api/v1/auth/login", json={"username": "ada", "password": PASSWORD}
        )
        me = answer.json()
        assert me["user"] == {
            "name": "ada",
            "display_name": "",
            "role": "user",
            "default_project": "vision",
        }
        assert me["projects"] == ["vision"]
        assert me["platform"]["sessions_origin"] == stage.settings.sessions_origin
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"{stage.cookie}=")
        for part in ("HttpOnly", "Path=/api", "SameSite=lax", "Max-Age=43200"):
            assert part in cookie
        again = await client.get("/api/v1/me")
        assert again.json() == me


async def test_a_new_login_is_a_new_session_and_ends_the_old_one(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        old = client.cookies[stage.cookie]
        await client.post("/api/v1/auth/login", json={"username": "ada", "password": PASSWORD})
        assert client.cookies[stage.cookie] != old
    async with stage.client() as stale:
        stale.cookies.set(stage.cookie, old)
        assert (await stale.get("/api/v1/me")).status_code == 401


async def test_logout_ends_the_session_on_the_server(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        cookie = client.cookies[stage.cookie]
        assert (await client.post("/api/v1/auth/logout")).status_code == 204
        assert stage.cookie not in client.cookies
        client.cookies.set(stage.cookie, cookie)
        assert (await client.get("/api/v1/me")).status_code == 401
        assert (await client.post("/api/v1/auth/logout")).status_code == 204


async def test_a_login_ends_after_its_lifetime(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        stage.clock.move(stage.settings.auth.session_lifetime + 1)
        assert (await client.get("/api/v1/me")).status_code == 401


async def test_a_login_link_works_once(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as program:
        link = (await program.post("/api/v1/auth/login-links")).json()
    start = f"{stage.settings.portal_url}/login#link="
    assert link["url"].startswith(start)
    token = link["url"].removeprefix(start)
    async with stage.client() as browser:
        first = await browser.post("/api/v1/auth/login-link", json={"token": token})
        assert first.json()["user"]["name"] == "root"
        second = await browser.post("/api/v1/auth/login-link", json={"token": token})
        assert (second.status_code, second.json()["code"]) == (401, "not_authenticated")


async def test_a_login_link_expires(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    link = await stage.platform.identity.links.create(ada)
    stage.clock.move(stage.settings.auth.login_link_lifetime + 1)
    async with stage.client() as browser:
        answer = await browser.post(
            "/api/v1/auth/login-link", json={"token": link.url.partition("#link=")[2]}
        )
    assert answer.status_code == 401


async def test_a_token_is_listed_without_its_secret_and_can_be_revoked(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        made = await client.post("/api/v1/tokens", json={"name": "laptop", "expires_in": "30d"})
        assert made.status_code == 201
        token = made.json()
        assert token["token"].startswith("aitne_pat_")
        assert set(token["scopes"]) == {"read", "write"}
        listed = (await client.get("/api/v1/tokens")).json()["items"]
        assert [each["id"] for each in listed] == [token["id"]]
        assert "token" not in listed[0]
        async with stage.client(token["token"]) as program:
            me = (await program.get("/api/v1/me")).json()
            assert me["user"]["name"] == "ada"
            assert me["csrf_token"] is None
            gone = await client.delete(f"/api/v1/tokens/{token['id']}")
            assert gone.status_code == 204
            assert (await program.get("/api/v1/me")).status_code == 401


async def test_a_token_expires(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(ada, lifetime_s=60)) as program:
        assert (await program.get("/api/v1/me")).status_code == 200
        stage.clock.move(61)
        assert (await program.get("/api/v1/me")).status_code == 401


async def test_a_token_does_no_more_than_its_scopes(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root, Scope.READ)) as reader:
        assert (await reader.get("/api/v1/jobs")).status_code == 200
        refused = await reader.post("/api/v1/jobs", json={"commands": ["true"]})
        assert refused.status_code == 403
        assert "scope write" in refused.json()["detail"]
        assert (await reader.get("/api/v1/users")).status_code == 403
        assert (await reader.post("/api/v1/auth/login-links")).status_code == 403
    async with stage.client(await stage.token(root, Scope.WRITE)) as writer:
        assert (await writer.get("/api/v1/jobs")).status_code == 403
        more = await writer.post("/api/v1/tokens", json={"name": "more", "scopes": ["admin"]})
        assert more.status_code in (403, 404)


async def test_a_demoted_administrators_token_administers_nothing(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    second = await stage.add_user("second", Role.ADMIN)
    secret = await stage.token(second)
    await stage.platform.users.update(root, "second", role=Role.USER)
    async with stage.client(secret) as program:
        assert (await program.get("/api/v1/users")).status_code == 403
        assert (await program.get("/api/v1/users/root")).status_code == 404


async def test_an_administrator_makes_tokens_for_others(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    ada = await stage.add_user("ada")
    async with stage.client(await stage.token(root)) as program:
        made = await program.post("/api/v1/tokens", json={"name": "bot", "user": "ada"})
        assert made.json()["owner"] == "ada"
        excess = await program.post(
            "/api/v1/tokens", json={"name": "bot", "user": "ada", "scopes": ["admin"]}
        )
        assert excess.status_code == 422
        assert excess.json()["problems"][0]["field"] == "scopes"
        nobody = await program.post("/api/v1/tokens", json={"name": "bot", "user": "nobody"})
        assert nobody.status_code == 404
    async with stage.client(await stage.token(ada)) as program:
        other = await program.post("/api/v1/tokens", json={"name": "bot", "user": "root"})
        assert other.status_code == 404
        assert (await program.get("/api/v1/tokens?user=root")).status_code == 404


@pytest.mark.parametrize("address", ["javascript:alert(1)", "docs.example.org", "https://a b"])
def test_documentation_is_a_web_address(address: str) -> None:
    assert Settings(documentation_url="https://docs.example.org/x").documentation_url is not None
    with pytest.raises(ValidationError):
        Settings(documentation_url=address)
