from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pyotp
import pytest

from aitne.core.models.user import Role
from tests.support.stage import PASSWORD, Stage, open_stage


async def first_step(client: httpx.AsyncClient, name: str = "ada") -> httpx.Response:
    body = {"username": name, "password": PASSWORD}
    return await client.post("/api/v1/auth/login", json=body)


async def second_step(client: httpx.AsyncClient, ticket: str, code: str) -> httpx.Response:
    return await client.post("/api/v1/auth/totp", json={"ticket": ticket, "code": code})


def code_of(stage: Stage, secret: str, steps: int = 0) -> str:
    return pyotp.TOTP(secret).at(int(stage.clock.now.timestamp()) + 30 * steps)


async def set_up(stage: Stage, name: str = "ada") -> tuple[str, list[str]]:
    """Set up a second factor and use its current code; return the secret and the recovery codes."""
    async with stage.browser(name) as client:
        made = (await client.post("/api/v1/account/second-factor")).json()
        code = code_of(stage, made["secret"])
        confirmed = await client.post("/api/v1/account/second-factor/confirm", json={"code": code})
    return made["secret"], confirmed.json()["recovery_codes"]


@pytest.fixture
async def strict(tmp_path: Path, blank: Path) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path, blank, auth={"second_factor": "admins"}) as stage:
        yield stage


async def test_setting_it_up_shows_a_picture_and_a_secret_and_asks_from_then_on(
    stage: Stage,
) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        made = (await client.post("/api/v1/account/second-factor")).json()
        assert made["qr_svg"].startswith('<svg xmlns="http://www.w3.org/2000/svg"')
        assert pyotp.parse_uri(made["uri"]).secret == made["secret"]
        assert (await first_step(stage.client())).status_code == 200  # not confirmed yet
        wrong = await client.post("/api/v1/account/second-factor/confirm", json={"code": "000000"})
        assert wrong.status_code == 403
        right = await client.post(
            "/api/v1/account/second-factor/confirm",
            json={"code": code_of(stage, made["secret"])},
        )
        codes = right.json()["recovery_codes"]
        assert len(set(codes)) == 10
        factor = (await client.get("/api/v1/account")).json()["second_factor"]
        assert (factor["enabled"], factor["recovery_codes_left"]) == (True, 10)
        again = await client.post("/api/v1/account/second-factor")
        assert again.status_code == 409


async def test_the_first_step_alone_is_no_login(stage: Stage) -> None:
    await stage.add_user("ada")
    secret, _ = await set_up(stage)
    async with stage.client() as client:
        asked = await first_step(client)
        assert asked.status_code == 202
        assert "set-cookie" not in asked.headers
        assert asked.json()["second_factor_required"] is True
        assert asked.json()["enrol"] is None
        assert (await client.get("/api/v1/me")).status_code == 401
        stage.clock.move(30)
        done = await second_step(client, asked.json()["ticket"], code_of(stage, secret))
        assert (done.status_code, done.json()["user"]["name"]) == (200, "ada")
        assert done.json()["recovery_codes"] == []
        assert (await client.get("/api/v1/me")).status_code == 200


async def test_a_code_works_once_and_none_before_it(stage: Stage) -> None:
    await stage.add_user("ada")
    secret, _ = await set_up(stage)
    stage.clock.move(60)
    used = code_of(stage, secret)
    earlier = code_of(stage, secret, -1)
    async with stage.client() as client:
        first = (await first_step(client)).json()["ticket"]
        assert (await second_step(client, first, used)).status_code == 200
    async with stage.client() as client:
        for replayed in (used, earlier):
            ticket = (await first_step(client)).json()["ticket"]
            assert (await second_step(client, ticket, replayed)).status_code == 401


async def test_a_ticket_is_for_one_login_few_tries_and_five_minutes(stage: Stage) -> None:
    await stage.add_user("ada")
    secret, _ = await set_up(stage)
    stage.clock.move(30)
    async with stage.client() as client:
        ticket = (await first_step(client)).json()["ticket"]
        assert (await second_step(client, ticket, "000000")).status_code == 401
        assert (await second_step(client, ticket, code_of(stage, secret))).status_code == 200
        assert (await second_step(client, ticket, code_of(stage, secret, 1))).status_code == 401
    async with stage.client() as client:
        ticket = (await first_step(client)).json()["ticket"]
        for _ in range(5):
            assert (await second_step(client, ticket, "000000")).status_code == 401
        stage.clock.move(30)
        assert (await second_step(client, ticket, code_of(stage, secret))).status_code == 401
        ticket = (await first_step(client)).json()["ticket"]
        stage.clock.move(300)
        late = await second_step(client, ticket, code_of(stage, secret))
        assert (late.status_code, "too long" in late.json()["detail"]) == (401, True)


async def test_wrong_codes_lock_however_many_tickets_there_are(stage: Stage) -> None:
    await stage.add_user("ada")
    secret, _ = await set_up(stage)
    stage.clock.move(30)
    answers = []
    async with stage.client() as client:
        for _ in range(stage.settings.auth.max_failures + 1):
            ticket = (await first_step(client)).json()["ticket"]
            answers.append((await second_step(client, ticket, "000000")).status_code)
        assert answers == [401] * stage.settings.auth.max_failures + [429]
        ticket = (await first_step(client)).json()["ticket"]
        assert (await second_step(client, ticket, code_of(stage, secret))).status_code == 429


async def test_a_recovery_code_works_once_however_it_is_typed(stage: Stage) -> None:
    await stage.add_user("ada")
    _, codes = await set_up(stage)
    async with stage.client() as client:
        ticket = (await first_step(client)).json()["ticket"]
        typed = codes[0].replace("-", " ").upper()
        assert (await second_step(client, ticket, typed)).status_code == 200
        left = (await client.get("/api/v1/account")).json()["second_factor"]
        assert left["recovery_codes_left"] == 9
    async with stage.client() as client:
        ticket = (await first_step(client)).json()["ticket"]
        assert (await second_step(client, ticket, codes[0])).status_code == 401


async def test_new_recovery_codes_need_a_code_and_end_the_old_ones(stage: Stage) -> None:
    await stage.add_user("ada")
    secret, old = await set_up(stage)
    stage.clock.move(30)
    async with stage.client() as client:
        client.headers["Origin"] = stage.settings.portal_url
        ticket = (await first_step(client)).json()["ticket"]
        me = await second_step(client, ticket, code_of(stage, secret))
        client.headers["X-CSRF-Token"] = me.json()["csrf_token"]
        path = "/api/v1/account/second-factor/recovery-codes"
        assert (await client.post(path, json={"code": "000000"})).status_code == 403
        stage.clock.move(30)
        renewed = await client.post(path, json={"code": code_of(stage, secret)})
        assert not set(renewed.json()["recovery_codes"]) & set(old)
    async with stage.client() as client:
        ticket = (await first_step(client)).json()["ticket"]
        assert (await second_step(client, ticket, old[0])).status_code == 401


@pytest.mark.parametrize("proof", ["code", "password"])
async def test_removing_it_needs_a_proof(stage: Stage, proof: str) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        made = (await client.post("/api/v1/account/second-factor")).json()
        code = code_of(stage, made["secret"])
        await client.post("/api/v1/account/second-factor/confirm", json={"code": code})
        path = "/api/v1/account/second-factor/disable"
        wrong: dict[str, Any] = {proof: "000000"}
        assert (await client.post(path, json={})).status_code == 422
        assert (await client.post(path, json=wrong)).status_code == 403
        stage.clock.move(30)
        right = {"code": code_of(stage, made["secret"]), "password": PASSWORD}[proof]
        assert (await client.post(path, json={proof: right})).status_code == 204
    async with stage.client() as client:
        assert (await first_step(client)).status_code == 200


async def test_the_rule_has_administrators_set_one_up_on_the_way_in(strict: Stage) -> None:
    await strict.add_user("root", Role.ADMIN)
    await strict.add_user("ada")
    async with strict.client() as client:
        assert (await first_step(client, "ada")).status_code == 200
    async with strict.client() as client:
        asked = await first_step(client, "root")
        assert asked.status_code == 202
        enrol = asked.json()["enrol"]
        assert (await client.get("/api/v1/me")).status_code == 401
        done = await second_step(client, asked.json()["ticket"], code_of(strict, enrol["secret"]))
        assert len(done.json()["recovery_codes"]) == 10
        client.headers["X-CSRF-Token"] = done.json()["csrf_token"]
        client.headers["Origin"] = strict.settings.portal_url
        refused = await client.post(
            "/api/v1/account/second-factor/disable", json={"password": PASSWORD}
        )
        assert refused.status_code == 409
    async with strict.client() as client:
        assert (await first_step(client, "root")).json()["enrol"] is None


async def test_links_and_tokens_are_not_asked(strict: Stage) -> None:
    root = await strict.add_user("root", Role.ADMIN)
    link = await strict.platform.identity.links.create(root)
    async with strict.client() as client:
        token = link.url.partition("#link=")[2]
        answer = await client.post("/api/v1/auth/login-link", json={"token": token})
        assert answer.status_code == 200
    async with strict.client(await strict.token(root)) as program:
        assert (await program.get("/api/v1/users")).status_code == 200


async def test_an_administrator_resets_it_which_ends_the_sign_ins(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    await stage.add_user("ada")
    async with stage.browser("ada") as ada, stage.client(await stage.token(root)) as program:
        made = (await ada.post("/api/v1/account/second-factor")).json()
        code = code_of(stage, made["secret"])
        await ada.post("/api/v1/account/second-factor/confirm", json={"code": code})
        seen = (await program.get("/api/v1/users/ada/protection")).json()
        assert (seen["second_factor"], seen["sign_ins"]) == (True, 1)
        reset = await program.post("/api/v1/users/ada/reset-second-factor")
        assert reset.status_code == 204
        assert (await ada.get("/api/v1/me")).status_code == 401
    async with stage.client() as client:
        assert (await first_step(client)).status_code == 200


async def test_the_database_has_neither_secret_nor_codes(stage: Stage) -> None:
    await stage.add_user("ada")
    secret, codes = await set_up(stage)
    await stage.store.close()
    kept = b"".join(path.read_bytes() for path in stage.settings.data_dir.glob("aitne.db*"))
    for text in (secret, *codes):
        assert text.encode() not in kept
