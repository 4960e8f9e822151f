"""The provider that JupyterHub logs its users in with."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from aitne.services.users.hub_oauth_provider import CODE_LIFETIME_S, challenge_of
from tests.support.stage import SECRETS, Stage

VERIFIER = "v" * 64
SECRET = SECRETS["oauth_client_secret"]


def question(stage: Stage, **change: str | None) -> dict[str, str]:
    asked = {
        "client_id": "jupyterhub",
        "redirect_uri": stage.platform.oauth.redirect_uri,
        "response_type": "code",
        "state": "the-state",
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        **change,
    }
    return {name: value for name, value in asked.items() if value is not None}


def answer_in(response: httpx.Response) -> dict[str, str]:
    assert response.status_code == 302, response.text
    query = parse_qs(urlsplit(response.headers["location"]).query)
    return {name: values[0] for name, values in query.items()}


async def authorize(
    stage: Stage, client: httpx.AsyncClient, **change: str | None
) -> dict[str, str]:
    # The Hub's redirect: a navigation that comes from the sessions' origin.
    headers = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}
    return answer_in(
        await client.get("/api/oauth/authorize", params=question(stage, **change), headers=headers)
    )


async def exchange(stage: Stage, code: str, **change: str | None) -> httpx.Response:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": stage.platform.oauth.redirect_uri,
        "code_verifier": VERIFIER,
        "client_id": "jupyterhub",
        "client_secret": SECRET,
        **change,
    }
    async with stage.client() as hub:
        return await hub.post(
            "/api/oauth/token", data={name: value for name, value in form.items() if value}
        )


async def test_the_hub_learns_who_is_logged_in(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        back = await authorize(stage, client)
        (sign_in,) = (await client.get("/api/v1/account/sign-ins")).json()["items"]
    assert back["state"] == "the-state"
    token = await exchange(stage, back["code"])
    assert token.status_code == 200, token.text
    assert token.headers["cache-control"] == "no-store"
    assert token.json()["token_type"] == "Bearer"
    async with stage.client(token.json()["access_token"]) as hub:
        who = await hub.get("/api/oauth/userinfo")
        assert who.json() == {
            "sub": "ada",
            "sid": sign_in["id"],
            "name": "ada",
            "preferred_username": "ada",
            "admin": False,
        }
        # It answers one question and is no key to anything else.
        assert (await hub.get("/api/oauth/userinfo")).status_code == 401
        assert (await hub.get("/api/v1/me")).status_code == 401


async def test_login_that_has_ended_since_its_code_was_issued_opens_nothing(stage: Stage) -> None:
    await stage.add_user("ada")
    for before_exchange in (True, False):
        async with stage.browser("ada") as client:
            back = await authorize(stage, client)
            if before_exchange:
                await client.post("/api/v1/auth/logout")
            token = (await exchange(stage, back["code"])).json()["access_token"]
            await client.post("/api/v1/auth/logout")
        async with stage.client(token) as hub:
            assert (await hub.get("/api/oauth/userinfo")).status_code == 401


async def test_the_client_may_use_basic_authentication(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    code = await stage.platform.oauth.issue_code(
        ada, stage.platform.oauth.redirect_uri, challenge_of(VERIFIER)
    )
    basic = base64.b64encode(f"jupyterhub:{SECRET}".encode()).decode()
    async with stage.client() as hub:
        answer = await hub.post(
            "/api/oauth/token",
            data={
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": stage.platform.oauth.redirect_uri,
                "code_verifier": VERIFIER,
            },
            headers={"Authorization": f"Basic {basic}"},
        )
    assert answer.status_code == 200


async def test_oauth_request_continues_after_login(stage: Stage) -> None:
    async with stage.client() as client:
        answer = await client.get("/api/oauth/authorize", params=question(stage))
    where = answer.headers["location"]
    assert where.startswith(f"{stage.settings.portal_url}/login?next=%2Fapi%2Foauth%2Fauthorize%3F")
    following = parse_qs(urlsplit(where).query)["next"][0]
    assert parse_qs(urlsplit(following).query)["state"] == ["the-state"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client_id", "other"),
        ("redirect_uri", "http://evil.test/hub/oauth_callback"),
        ("redirect_uri", "http://portal.test:8001/hub/oauth_callback/"),
        ("redirect_uri", "http://portal.test:8001/hub/oauth_callback?x=1"),
        ("redirect_uri", "http://portal.test:8001@evil.test/hub/oauth_callback"),
        ("redirect_uri", None),
    ],
)
async def test_oauth_request_with_unknown_redirect_address_is_refused(
    stage: Stage, name: str, value: str | None
) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        answer = await client.get("/api/oauth/authorize", params=question(stage, **{name: value}))
    assert answer.status_code == 422
    assert "location" not in answer.headers
    assert answer.json()["problems"][0]["field"] == name


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
async def test_pkce_is_needed(stage: Stage, change: dict[str, str | None], error: str) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        back = await authorize(stage, client, **change)
    assert (back["error"], back["state"]) == (error, "the-state")
    assert "code" not in back


async def test_a_code_works_once_also_at_once(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        code = (await authorize(stage, client))["code"]
    answers = await asyncio.gather(*(exchange(stage, code) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400, 400]
    assert {answer.json()["error"] for answer in answers if answer.status_code == 400} == {
        "invalid_grant"
    }


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"code_verifier": "w" * 64}, 400, "invalid_grant"),
        ({"code_verifier": None}, 400, "invalid_grant"),
        ({"redirect_uri": "http://evil.test/"}, 400, "invalid_grant"),
        ({"code": "wrong"}, 400, "invalid_grant"),
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_secret": None}, 401, "invalid_client"),
        ({"client_id": "other"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
    ],
)
async def test_a_wrong_exchange(
    stage: Stage, change: dict[str, str | None], status: int, error: str
) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        code = (await authorize(stage, client))["code"]
    wrong = await exchange(stage, **{"code": code, **change})  # type: ignore[arg-type]
    assert (wrong.status_code, wrong.json()["error"]) == (status, error)
    if error == "invalid_grant" and "code" not in change:
        # The code was sent with a wrong value once and is no longer valid.
        assert (await exchange(stage, code)).json()["error"] == "invalid_grant"


async def test_a_code_and_a_token_last_a_minute(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        code = (await authorize(stage, client))["code"]
        stage.clock.move(CODE_LIFETIME_S + 1)
        assert (await exchange(stage, code)).json()["error"] == "invalid_grant"
        code = (await authorize(stage, client))["code"]
    token = (await exchange(stage, code)).json()["access_token"]
    stage.clock.move(CODE_LIFETIME_S + 1)
    async with stage.client(token) as hub:
        assert (await hub.get("/api/oauth/userinfo")).status_code == 401


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{}", "application/json"),
        (b"grant_type=a&grant_type=b", "application/x-www-form-urlencoded"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"nonsense", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % n for n in range(100)), "application/x-www-form-urlencoded"),
    ],
)
async def test_a_body_that_is_no_form(stage: Stage, content: bytes, kind: str) -> None:
    async with stage.client() as hub:
        answer = await hub.post("/api/oauth/token", content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
