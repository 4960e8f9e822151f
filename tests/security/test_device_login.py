"""Login by a code that is confirmed in the portal: who gets a token, when, and how often."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.core.models.user import Role
from aitne.services.users import device_logins
from aitne.services.users.device_logins import INTERVAL_S, LIFETIME_S, MOST_OF_NETWORK
from tests.support.stage import PASSWORD, Stage, open_stage

BEGIN, TOKEN, LOOK_UP, CONFIRM = (
    f"/api/v1/auth/device{end}" for end in ("", "/token", "/lookup", "/confirm")
)


async def begin(program: httpx.AsyncClient) -> dict[str, Any]:
    answer = await program.post(BEGIN, json={"name": "aitne login on laptop"})
    assert answer.status_code == 200, answer.text
    codes: dict[str, Any] = answer.json()
    return codes


async def ask(program: httpx.AsyncClient, codes: dict[str, Any]) -> tuple[int, str]:
    answer = await program.post(TOKEN, json={"device_code": codes["device_code"]})
    return answer.status_code, answer.json().get("code", "")


async def look_up(stage: Stage, portal: httpx.AsyncClient, codes: dict[str, Any]) -> dict[str, Any]:
    """Look at the request in the portal, and enter the password a second later."""
    answer = await portal.post(LOOK_UP, json={"user_code": codes["user_code"]})
    assert answer.status_code == 200, answer.text
    stage.clock.move(1)
    await reauthenticate(portal)
    request: dict[str, Any] = answer.json()
    return request


async def reauthenticate(portal: httpx.AsyncClient) -> None:
    proof = await portal.post("/api/v1/account/reauthenticate", json={"password": PASSWORD})
    assert proof.status_code == 204, proof.text


async def test_program_gets_one_token_after_confirmation(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        assert (codes["expires_in"], codes["interval"]) == (LIFETIME_S, INTERVAL_S)
        assert await ask(program, codes) == (409, "authorization_pending")
        await look_up(stage, portal, codes)
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
        again = await portal.post(CONFIRM, json={"user_code": codes["user_code"]})
        assert again.status_code == 422, "and is confirmed once"
    (stored,) = await stage.store.list_tokens("ada")
    assert stored.id == token["id"]
    root = await stage.add_user("root", role=Role.ADMIN)
    async with stage.client(await stage.token(root)) as administrator:
        entries = (await administrator.get("/api/v1/admin/audit")).json()["items"]
    actions = {entry["action"]: entry for entry in entries}
    assert actions["confirm_device_login"]["actor"] == "ada"
    assert actions["redeem_device_login"]["object"] == token["id"]
    assert token["token"] not in str(entries)


async def test_user_sees_program_address_and_age_and_no_address_has_the_code(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        program.headers["User-Agent"] = "aitne/0.3 (Linux)"
        codes = await begin(program)
        assert codes["verification_uri_complete"] == codes["verification_uri"]
        assert codes["user_code"] not in codes["verification_uri"]
        begun = stage.clock.now
        stage.clock.move(300)
        request = await look_up(stage, portal, codes)
    assert request["name"] == "aitne login on laptop"
    assert request["program"] == "Aitne's command line on Linux"
    assert request["address"] == "127.0.0.1"
    assert datetime.fromisoformat(request["created_at"]) == begun
    assert request["token_lifetime_s"] == 90 * 86_400


@pytest.mark.parametrize(
    ("maximum", "requested", "granted_d"),
    [("90d", None, 90), ("30d", None, 30), ("365d", "300d", 300), ("90d", "91d", None)],
)
async def test_tokens_of_programs_end_within_what_is_permitted(
    tmp_path: Path, blank: Path, maximum: str, requested: str | None, granted_d: int | None
) -> None:
    auth = {"device_token_lifetime": maximum}
    async with open_stage(tmp_path, blank, auth=auth) as stage:
        await stage.add_user("ada")
        async with stage.client() as program, stage.browser("ada") as portal:
            codes = await begin(program)
            await look_up(stage, portal, codes)
            answer = await portal.post(
                CONFIRM, json={"user_code": codes["user_code"], "expires_in": requested}
            )
            if granted_d is None:
                assert answer.json()["problems"][0]["field"] == "expires_in"
                return
            token = (await program.post(TOKEN, json={"device_code": codes["device_code"]})).json()
        lasts = datetime.fromisoformat(token["expires_at"]) - stage.clock.now
        assert lasts.days == granted_d


async def test_waiting_requests_are_bounded_by_address_and_in_total(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.add_user("ada")
    monkeypatch.setattr(device_logins, "MOST_WAITING", MOST_OF_NETWORK + 1)

    async def status(address: str) -> int:
        async with stage.client(client=(address, 1)) as program:
            return (await program.post(BEGIN, json={"name": "x"})).status_code

    seen = [await status(f"2001:db8::{number}") for number in range(MOST_OF_NETWORK + 1)]
    assert seen == [200] * MOST_OF_NETWORK + [429]
    assert [await status(address) for address in ("192.0.2.1", "192.0.2.2")] == [200, 429]
    stage.clock.move(LIFETIME_S)
    assert await status("2001:db8::1") == 200


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


async def test_confirmation_always_needs_proof_and_ends_with_the_login(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        body = {"user_code": codes["user_code"], "scopes": ["read"]}
        async with stage.client(await stage.token(ada)) as robot:
            assert (await robot.post(CONFIRM, json=body)).json()["code"] == "not_allowed"
        for seconds in (0, 1):
            stage.clock.move(seconds)
            answer = await portal.post(CONFIRM, json=body)
            assert answer.json()["code"] == "reauthentication_required", "a login moments ago"
        await reauthenticate(portal)
        assert (await portal.post(CONFIRM, json=body | {"scopes": ["read", "admin"]})).is_error
        assert (await portal.post(CONFIRM, json=body)).status_code == 204
        assert (await portal.delete("/api/v1/account/sign-ins")).status_code == 200
        assert await ask(program, codes) == (409, "authorization_pending")


async def test_proof_for_one_user_is_none_for_another(stage: Stage) -> None:
    await stage.add_user("ada")
    await stage.add_user("eve")
    async with (
        stage.client() as program,
        stage.browser("ada") as portal,
        stage.browser("eve") as other,
    ):
        codes = await begin(program)
        await look_up(stage, portal, codes)
        answer = await other.post(CONFIRM, json={"user_code": codes["user_code"]})
        assert answer.json()["code"] == "reauthentication_required"


async def test_disabled_account_gets_no_token(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.client() as program, stage.browser("ada") as portal:
        codes = await begin(program)
        await look_up(stage, portal, codes)
        confirmed = await portal.post(CONFIRM, json={"user_code": codes["user_code"]})
        assert confirmed.status_code == 204
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
