"""Login by a code that is confirmed in the portal: who gets a token, when, and how often."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from aitne.core.models.user import Role
from aitne.core.users.policy import REAUTHENTICATION_S
from aitne.services.users.device_logins import INTERVAL_S, LIFETIME_S
from tests.support.stage import Stage

BEGIN, TOKEN, CONFIRM = (f"/api/v1/auth/device{end}" for end in ("", "/token", "/confirm"))


async def begin(program: httpx.AsyncClient) -> dict[str, Any]:
    answer = await program.post(BEGIN, json={"name": "aitne login on laptop"})
    assert answer.status_code == 200, answer.text
    codes: dict[str, Any] = answer.json()
    return codes


async def ask(program: httpx.AsyncClient, codes: dict[str, Any]) -> tuple[int, str]:
    answer = await program.post(TOKEN, json={"device_code": codes["device_code"]})
    return answer.status_code, answer.json().get("code", "")


async def test_program_gets_one_token_after_confirmation(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        assert (codes["expires_in"], codes["interval"]) == (LIFETIME_S, INTERVAL_S)
        assert codes["verification_uri_complete"].endswith(f"/device?code={codes['user_code']}")
        assert await ask(program, codes) == (409, "authorization_pending")
        typed = codes["user_code"].lower().replace("-", " ")
        answer = await portal.post(CONFIRM, json={"user_code": typed, "expires_in": "1h"})
        assert answer.status_code == 204, answer.text
        token = (await program.post(TOKEN, json={"device_code": codes["device_code"]})).json()
        assert (token["owner"], token["name"]) == ("ada", "aitne login on laptop")
        assert sorted(token["scopes"]) == ["read", "write"]
        assert token["expires_at"] is not None
        async with stage.client(token["token"]) as logged_in:
            assert (await logged_in.get("/api/v1/me")).json()["user"]["name"] == "ada"
        assert (await ask(program, codes))[0] == 409, "the code works once"
    (stored,) = await stage.store.list_tokens("ada")
    assert stored.id == token["id"]
    root = await stage.add_user("root", role=Role.ADMIN)
    async with stage.client(await stage.token(root)) as administrator:
        entries = (await administrator.get("/api/v1/admin/audit")).json()["items"]
    actions = {entry["action"]: entry for entry in entries}
    assert actions["confirm_device_login"]["actor"] == "ada"
    assert actions["redeem_device_login"]["object"] == token["id"]
    assert token["token"] not in str(entries)


async def test_code_expires_and_cannot_be_forged(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        payload, _, signature = codes["device_code"].partition(".")
        for forged in (f"{payload}.{signature[::-1]}", payload, "é.é", f"A{codes['device_code']}"):
            assert (await ask(program, {"device_code": forged}))[0] == 401
        wrong = codes["user_code"][:-1] + ("B" if codes["user_code"][-1] != "B" else "C")
        answer = await portal.post(CONFIRM, json={"user_code": wrong})
        assert answer.json()["problems"][0]["field"] == "user_code"
        stage.clock.move(LIFETIME_S)
        assert (await ask(program, codes))[0] == 401


async def test_refused_login_gets_no_token(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        refusal = {"user_code": codes["user_code"], "approve": False}
        assert (await portal.post(CONFIRM, json=refusal)).status_code == 204
        assert await ask(program, codes) == (403, "not_allowed")
    assert not await stage.store.list_tokens("ada")


async def test_confirmation_needs_recent_login_and_ends_with_it(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        admin = {"user_code": codes["user_code"], "scopes": ["read", "admin"]}
        assert (await portal.post(CONFIRM, json=admin)).status_code in (403, 422)
        assert (await portal.post(CONFIRM, json=admin | {"scopes": ["read"]})).status_code == 204
        assert (await portal.delete("/api/v1/account/sign-ins")).status_code == 200
        assert await ask(program, codes) == (409, "authorization_pending")
        stage.clock.move(REAUTHENTICATION_S + 1)
        fresh = await begin(program)
        answer = await portal.post(CONFIRM, json={"user_code": fresh["user_code"]})
        assert answer.json()["code"] == "reauthentication_required"


async def test_disabled_account_gets_no_token(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        await portal.post(CONFIRM, json={"user_code": codes["user_code"]})
        await stage.platform.users.update(stage.actor("root", Role.ADMIN), "ada", disabled=True)
        assert (await ask(program, codes))[0] in (401, 409)
    assert not await stage.store.list_tokens("ada")


async def test_program_that_asks_too_often_is_slowed_down(stage: Stage) -> None:
    async with stage.client() as program:
        codes, other = await begin(program), await begin(program)
        answers = [await ask(program, codes) for _ in range(6)]
        assert answers[0] == (409, "authorization_pending")
        assert answers[-1] == (429, "rate_limited")
        assert await ask(program, other) == (409, "authorization_pending")


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 101])
async def test_name_of_program_is_checked(stage: Stage, name: str) -> None:
    async with stage.client() as program:
        assert (await program.post(BEGIN, json={"name": name})).status_code == 422
