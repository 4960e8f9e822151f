from __future__ import annotations

import time
from statistics import median

import httpx
import pytest

from aitne.adapters.identity.password import PasswordIdentity
from aitne.core.errors import NotAuthenticated, RateLimited, Unavailable
from aitne.core.models.user import Role
from aitne.core.ports.identity_source import Identity
from aitne.services.platform.shared_secrets import hash_secret
from aitne.services.users.known_browser_lockout import LIFETIME_S
from aitne.services.users.login_results import RequestOrigin
from aitne.services.users.login_service import LoginService
from tests.support.stage import PASSWORD, Stage


async def attempt(
    stage: Stage, name: str, password: str = "wrong", address: str = "10.0.0.1"
) -> str:
    try:
        await stage.platform.identity.login(name, password, RequestOrigin(address))
    except NotAuthenticated as error:
        return error.code
    except RateLimited as error:
        return error.code if error.retry_after_s > 0 else "no time given"
    return "ok"


async def test_failures_are_limited_by_name(stage: Stage) -> None:
    await stage.add_user("ada")
    most = stage.settings.auth.max_failures
    for n in range(most):
        assert await attempt(stage, "ada", address=f"10.0.0.{n}") == "not_authenticated"
    assert await attempt(stage, "ada", PASSWORD, address="10.0.1.1") == "rate_limited"
    stage.clock.move(stage.settings.auth.failure_window + 1)
    assert await attempt(stage, "ada", PASSWORD, address="10.0.1.1") == "ok"


async def test_failures_are_limited_by_address(stage: Stage) -> None:
    await stage.add_user("ada")
    for n in range(stage.settings.auth.max_failures):
        assert await attempt(stage, f"user{n}") == "not_authenticated"
    assert await attempt(stage, "ada", PASSWORD) == "rate_limited"
    assert await attempt(stage, "ada", PASSWORD, address="10.0.0.2") == "ok"


async def test_an_own_login_does_not_reset_the_count_of_an_address(stage: Stage) -> None:
    await stage.add_user("bob")
    for n in range(stage.settings.auth.max_failures - 1):
        assert await attempt(stage, f"user{n}") == "not_authenticated"
    for n in range(2):
        assert await attempt(stage, "bob", PASSWORD) == "ok", n
    assert await attempt(stage, "another") == "not_authenticated"
    assert await attempt(stage, "user0") == "rate_limited"


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        (("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:9::"), "2001:db8:0:1::1"),
        (("::ffff:10.0.0.1", "10.0.0.1"), "::ffff:10.0.0.2"),
    ],
)
async def test_addresses_that_one_host_may_choose_among_count_together(
    stage: Stage, addresses: tuple[str, ...], other: str
) -> None:
    await stage.add_user("ada")
    for n in range(stage.settings.auth.max_failures):
        address = addresses[n % len(addresses)]
        assert await attempt(stage, f"user{n}", address=address) == "not_authenticated"
    assert await attempt(stage, "ada", PASSWORD, address=addresses[0]) == "rate_limited"
    assert await attempt(stage, "ada", PASSWORD, address=other) == "ok"


async def test_successes_are_not_failures(stage: Stage) -> None:
    await stage.add_user("ada")
    for _ in range(3 * stage.settings.auth.max_failures):
        assert await attempt(stage, "ada", PASSWORD) == "ok"


class Silent:
    """A directory that does not answer."""

    name = "ldap"

    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        raise Unavailable("The directory does not answer.")


class TestOutage:
    def arrivals(self, stage: Stage) -> LoginService:
        sources = [PasswordIdentity(stage.settings), Silent()]
        return LoginService(stage.store, stage.settings, stage.clock, sources)

    async def tries(self, stage: Stage, name: str) -> set[str]:
        working, stage.platform.identity.arrivals = (
            stage.platform.identity.arrivals,
            self.arrivals(stage),
        )
        found = set()
        for _ in range(2 * stage.settings.auth.max_failures):
            try:
                found.add(await attempt(stage, name))
            except Unavailable as error:
                found.add(error.code)
        stage.platform.identity.arrivals = working
        return found

    async def test_of_a_directory_counts_as_nobodys_guess(self, stage: Stage) -> None:
        await stage.add_user("ada")
        assert await self.tries(stage, "dora") == {"unavailable"}
        assert await attempt(stage, "ada", PASSWORD) == "ok", "nor is the address locked out"

    async def test_lets_nobody_guess_the_passwords_of_others(self, stage: Stage) -> None:
        await stage.add_user("ada")
        assert await self.tries(stage, "ada") == {"unavailable", "rate_limited"}


async def test_the_api_says_when_to_try_again(stage: Stage) -> None:
    async with stage.client() as client:
        body = {"username": "nobody", "password": "wrong"}
        for _ in range(stage.settings.auth.max_failures):
            assert (await client.post("/api/v1/auth/login", json=body)).status_code == 401
        answer = await client.post("/api/v1/auth/login", json=body)
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) == stage.settings.auth.failure_window


class TestKnownBrowsers:
    async def log_in(self, client: httpx.AsyncClient, name: str, password: str = PASSWORD) -> int:
        body = {"username": name, "password": password}
        return (await client.post("/api/v1/auth/login", json=body)).status_code

    async def lock(self, stage: Stage, name: str) -> None:
        for n in range(stage.settings.auth.max_failures):
            await attempt(stage, name, address=f"10.0.0.{n}")
        assert await attempt(stage, name, PASSWORD, address="10.0.1.1") == "rate_limited"

    async def test_known_browser_is_not_locked_out_by_other_clients(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.client() as mine, stage.client() as new:
            assert await self.log_in(mine, "ada") == 200
            await mine.post("/api/v1/auth/logout")
            await self.lock(stage, "ada")
            for _ in range(stage.settings.auth.max_failures):  # nor from its own address
                await attempt(stage, "nobody", address="127.0.0.1")
            assert await self.log_in(new, "ada") == 429
            assert await self.log_in(mine, "ada") == 200
            assert await self.log_in(new, "ada") == 429, "that it is let in unlocks nobody else"

    async def test_failures_of_known_browser_lock_that_browser_only(self, stage: Stage) -> None:
        root = await stage.add_user("root", Role.ADMIN)
        await stage.add_user("ada")
        async with stage.client() as mine, stage.client(await stage.token(root)) as program:
            assert await self.log_in(mine, "ada") == 200
            for _ in range(stage.settings.auth.max_failures):
                assert await self.log_in(mine, "ada", "wrong") == 401
            assert await self.log_in(mine, "ada") == 429
            assert await attempt(stage, "ada", PASSWORD, address="10.0.1.1") == "ok"
            assert await self.log_in(mine, "ada") == 429
            assert (await program.post("/api/v1/users/ada/unlock")).status_code == 204
            assert await self.log_in(mine, "ada") == 200

    async def test_browser_cookie_is_for_one_user_and_year_and_unforgeable(
        self, stage: Stage
    ) -> None:
        await stage.add_user("ada")
        await stage.add_user("eve")
        name = f"{stage.cookie}_browser"
        async with stage.client() as client:
            assert await self.log_in(client, "eve") == 200
            cookie = client.cookies[name]
            answer = await client.post(
                "/api/v1/auth/login", json={"username": "eve", "password": PASSWORD}
            )
        (set_,) = (each for each in answer.headers.get_list("set-cookie") if name in each)
        assert {"HttpOnly", "Path=/api/v1/auth", "SameSite=lax"} <= set(set_.split("; "))
        await self.lock(stage, "ada")
        number, until, signature = cookie.split(".")
        forged = [
            cookie,
            f"{number}.{int(until) + 1}.{signature}",
            f"{number}.x.{signature}",
            "",
            "é",
        ]
        for each in forged:
            visit = RequestOrigin("10.0.1.1", browser=each)
            with pytest.raises(RateLimited):
                await stage.platform.identity.login("ada", PASSWORD, visit)
        await self.lock(stage, "eve")
        visit = RequestOrigin("10.0.1.1", browser=cookie)
        await stage.platform.identity.login("eve", PASSWORD, visit)
        stage.clock.move(LIFETIME_S + 1)
        await self.lock(stage, "eve")
        with pytest.raises(RateLimited):
            await stage.platform.identity.login("eve", PASSWORD, visit)


async def test_unknown_disabled_and_wrong_look_alike(stage: Stage) -> None:
    await stage.add_user("ada")
    await stage.add_user("gone")
    await stage.store.update_user("gone", disabled=True)
    await stage.platform.users.create(stage.actor("root", Role.ADMIN), name="bare")
    answers = []
    async with stage.client() as client:
        for name, password in (
            ("ada", "wrong"),
            ("nobody", "wrong"),
            ("gone", PASSWORD),
            ("bare", ""),
            ("no such name\0'; --", "wrong"),
        ):
            answer = await client.post(
                "/api/v1/auth/login", json={"username": name, "password": password}
            )
            answers.append((answer.status_code, answer.text))
    assert len(set(answers)) == 1
    assert answers[0][0] == 401


async def test_an_unknown_name_takes_as_long_as_a_known_one() -> None:
    source = PasswordIdentity()
    stored = await source.hash(PASSWORD)

    async def cost(known: str | None) -> float:
        begin = time.process_time()
        assert not await source.verify("x", "wrong", known)
        return time.process_time() - begin

    await cost(None)  # makes the hash that stands in for none
    known, unknown = [], []
    for _ in range(5):
        known.append(await cost(stored))
        unknown.append(await cost(None))
    assert 0.5 < median(unknown) / median(known) < 2


async def test_passwords_are_kept_as_argon2id() -> None:
    source = PasswordIdentity()
    stored = await source.hash(PASSWORD)
    assert stored.startswith("$argon2id$")
    assert await source.verify("x", PASSWORD, stored)
    assert not await source.verify("x", "", None)
    assert not await source.verify("x", PASSWORD, "not a hash")


async def test_no_secret_is_in_the_database(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    secrets = [PASSWORD, await stage.token(ada)]
    link = await stage.platform.identity.links.create(ada)
    secrets.append(link.url.partition("#link=")[2])
    async with stage.browser("ada") as client:
        secrets.append(client.cookies[stage.cookie])
        await stage.store.close()
        files = [path.read_bytes() for path in stage.settings.data_dir.glob("aitne.db*")]
    kept = b"".join(files)
    for secret in secrets:
        assert secret.encode() not in kept
    for secret in secrets[1:]:
        assert hash_secret(secret).encode() in kept


@pytest.mark.parametrize(
    "password",
    [
        "password1234",
        "aaaaaaaaaaaa",
        "123456789012",
        "qwertyuiop12",
        "ada-lovelace",
        "adaadaadaada",
        "Lovelace1234",
    ],
)
async def test_a_password_that_is_easy_to_guess_is_refused(stage: Stage, password: str) -> None:
    await stage.add_user("root", Role.ADMIN)
    async with stage.browser("root") as client:
        body = {"name": "ada", "display_name": "Ada Lovelace", "password": password}
        answer = await client.post("/api/v1/users", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["problems"][0]["field"] == "password"
        assert password not in answer.text
        body["password"] = "correct horse battery staple"
        assert (await client.post("/api/v1/users", json=body)).status_code == 201
        changed = await client.patch("/api/v1/users/ada", json={"password": password})
        assert changed.status_code == 422


@pytest.mark.parametrize("password", ["short", "elevenchars", "x" * 1_025])
async def test_a_password_has_a_length(stage: Stage, password: str) -> None:
    await stage.add_user("root", Role.ADMIN)
    async with stage.browser("root") as client:
        answer = await client.post("/api/v1/users", json={"name": "ada", "password": password})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "password"
    assert answer.json()["problems"][0]["value"] is None, "a password is never echoed"
