from __future__ import annotations

import httpx
import pytest

from aitne.core.models.audit import AuditFilter
from aitne.core.models.job import Job
from aitne.core.models.user import Role
from aitne.services.users.account_service import IMPERSONATION_S
from aitne.services.users.users_and_tokens import MOST_GUESSES
from tests.support.jobs import make_job
from tests.support.stage import PASSWORD, Stage

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
NEW = "another good sentence"


async def log_in(stage: Stage, client: httpx.AsyncClient, password: str = PASSWORD) -> int:
    body = {"username": "ada", "password": password}
    answer = await client.post("/api/v1/auth/login", json=body)
    if answer.status_code == 200:
        client.headers["X-CSRF-Token"] = answer.json()["csrf_token"]
        client.headers["Origin"] = stage.settings.portal_url
    return answer.status_code


class TestSignIns:
    async def test_the_list_says_which_browser_when_and_from_where(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.client() as one, stage.browser("ada") as two:
            one.headers["User-Agent"] = FIREFOX
            await log_in(stage, one)
            stage.clock.move(61)
            items = (await one.get("/api/v1/account/sign-ins")).json()["items"]
            assert [(each["device"], each["current"]) for each in items] == [
                ("Firefox on Linux", True),
                ("An unknown program", False),
            ]
            assert items[0]["last_seen_at"] > items[0]["created_at"]
            assert items[0]["address"] == "127.0.0.1"
            assert items[0]["source"] == "password"
            other = items[1]["id"]
            assert (await one.delete(f"/api/v1/account/sign-ins/{other}")).status_code == 204
            assert (await two.get("/api/v1/me")).status_code == 401
            assert (await one.delete(f"/api/v1/account/sign-ins/{other}")).status_code == 404

    async def test_sign_ins_of_other_users_cannot_be_ended(self, stage: Stage) -> None:
        for name in ("ada", "bob"):
            await stage.add_user(name)
        async with stage.browser("ada") as ada, stage.browser("bob") as bob:
            (mine,) = (await ada.get("/api/v1/account/sign-ins")).json()["items"]
            assert (await bob.delete(f"/api/v1/account/sign-ins/{mine['id']}")).status_code == 404
            assert (await bob.delete("/api/v1/users/ada/sign-ins")).status_code == 403
            assert (await ada.get("/api/v1/me")).status_code == 200

    @pytest.mark.parametrize("keep", [True, False])
    async def test_log_out_everywhere(self, stage: Stage, keep: bool) -> None:
        ada = await stage.add_user("ada")
        token = await stage.token(ada)
        async with stage.browser("ada") as one, stage.browser("ada") as two:
            params = {} if keep else {"keep_current": False}
            count = 1 if keep else 2
            ended = await one.delete("/api/v1/account/sign-ins", params=params)
            assert ended.json() == {"revoked": count, "ended": count}
            assert (await one.get("/api/v1/me")).status_code == (200 if keep else 401)
            assert (await two.get("/api/v1/me")).status_code == 401
        async with stage.client(token) as program:
            assert (await program.get("/api/v1/me")).status_code == 200

    async def test_a_cookie_that_was_there_before_is_no_login(self, stage: Stage) -> None:
        """Session fixation: a cookie that was planted in the browser never becomes a login."""
        await stage.add_user("ada")
        async with stage.client() as client:
            client.cookies.set(stage.cookie, "chosen-by-somebody", path="/api")
            assert await log_in(stage, client) == 200
            made = {cookie.value for cookie in client.cookies.jar if cookie.name == stage.cookie}
        async with stage.client() as attacker:
            attacker.cookies.set(stage.cookie, "chosen-by-somebody")
            assert (await attacker.get("/api/v1/me")).status_code == 401
        assert len(made - {"chosen-by-somebody"}) == 1


class TestPassword:
    async def test_an_own_password_ends_all_other_sign_ins(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.browser("ada") as one, stage.browser("ada") as two:
            path = "/api/v1/account/password"
            wrong = {"password": NEW, "current_password": "wrong"}
            assert (await one.post(path, json=wrong)).status_code == 403
            assert (await one.post(path, json={"password": NEW})).status_code == 403
            right = {"password": NEW, "current_password": PASSWORD}
            assert (await one.post(path, json=right)).status_code == 204
            assert (await one.get("/api/v1/me")).status_code == 200
            assert (await two.get("/api/v1/me")).status_code == 401
        async with stage.client() as client:
            assert await log_in(stage, client) == 401
            assert await log_in(stage, client, NEW) == 200

    async def test_new_password_deletes_tokens_on_request(self, stage: Stage) -> None:
        ada = await stage.add_user("ada")
        token = await stage.token(ada)
        async with stage.client(token) as program, stage.browser("ada") as browser:
            for asked, status in ((False, 200), (True, 401)):
                body = {"password": NEW, "current_password": NEW if asked else PASSWORD}
                done = await browser.post(
                    "/api/v1/account/password", json=body | {"delete_tokens": asked}
                )
                assert done.status_code == 204, done.text
                assert (await program.get("/api/v1/me")).status_code == status
            assert (await browser.get("/api/v1/me")).status_code == 200

    async def test_reset_password_deletes_tokens_on_request(self, stage: Stage) -> None:
        root = await stage.add_user("root", Role.ADMIN)
        token = await stage.token(await stage.add_user("ada"))
        async with stage.client(token) as program, stage.client() as client:
            for asked, status in ((False, 200), (True, 401)):
                link = await stage.platform.account.create_reset_link(root, "ada")
                body = {"token": link.url.partition("#token=")[2], "password": NEW}
                done = await client.post("/api/v1/auth/reset", json=body | {"delete_tokens": asked})
                assert done.status_code == 200, done.text
                assert (await program.get("/api/v1/me")).status_code == status

    async def test_the_current_password_is_not_guessed_there(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.browser("ada") as client:
            body = {"password": NEW, "current_password": "wrong"}
            answers = [
                (await client.post("/api/v1/account/password", json=body)).status_code
                for _ in range(stage.settings.auth.max_failures + 1)
            ]
        assert answers == [403] * stage.settings.auth.max_failures + [429]

    async def test_password_typed_as_user_name_is_not_in_audit_log(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.client() as client:
            for name in ("Tr0ub4dor&3", " ADA ", "nobody-known"):
                body = {"username": name, "password": "wrong"}
                assert (await client.post("/api/v1/auth/login", json=body)).status_code == 401
        entries = await stage.store.list_audit_entries_after(0, AuditFilter())
        assert [each.actor for each in entries] == ["?", "ada", "nobody-known"]

    async def test_nor_by_the_other_way_to_change_it(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.browser("ada") as client:
            tag = {"If-Match": (await client.get("/api/v1/users/ada")).headers["etag"]}
            body = {"password": NEW, "current_password": "wrong"}
            answers = [
                (await client.patch("/api/v1/users/ada", json=body, headers=tag)).status_code
                for _ in range(MOST_GUESSES + 1)
            ]
        assert answers == [403] * MOST_GUESSES + [429]

    async def test_a_reset_link_works_once_and_ends_all_sign_ins(self, stage: Stage) -> None:
        root = await stage.add_user("root", Role.ADMIN)
        await stage.add_user("ada")
        async with stage.client(await stage.token(root)) as program, stage.browser("ada") as ada:
            link = (await program.post("/api/v1/users/ada/reset-link")).json()
            start = f"{stage.settings.portal_url}/reset#token="
            assert link["url"].startswith(start)
            body = {"token": link["url"].removeprefix(start), "password": NEW}
            async with stage.client() as anybody:
                short = {**body, "password": "short"}
                assert (await anybody.post("/api/v1/auth/reset", json=short)).status_code == 422
                done = await anybody.post("/api/v1/auth/reset", json=body)
                assert (done.status_code, done.json()) == (200, {"name": "ada"})
                assert "set-cookie" not in done.headers
                assert (await anybody.post("/api/v1/auth/reset", json=body)).status_code == 401
                assert await log_in(stage, anybody, NEW) == 200
            assert (await ada.get("/api/v1/me")).status_code == 401

    async def test_a_reset_link_expires_and_unlocks(self, stage: Stage) -> None:
        root = await stage.add_user("root", Role.ADMIN)
        await stage.add_user("ada")
        links = [
            (await stage.platform.account.create_reset_link(root, "ada")).url.partition("=")[2]
            for _ in range(2)
        ]
        async with stage.client() as client:
            for _ in range(stage.settings.auth.max_failures):
                await log_in(stage, client, "wrong")
            await stage.store.delete_attempts("address:127.0.0.1")
            assert await log_in(stage, client) == 429
            await client.post("/api/v1/auth/reset", json={"token": links[0], "password": NEW})
            await stage.store.delete_attempts("address:127.0.0.1")
            assert await log_in(stage, client, NEW) == 200
            late = {"token": links[1], "password": NEW}
            assert (await client.post("/api/v1/auth/reset", json=late)).status_code == 401

    async def test_only_an_administrator_makes_reset_links(self, stage: Stage) -> None:
        await stage.add_user("ada")
        async with stage.browser("ada") as client:
            for name in ("ada", "root"):
                answer = await client.post(f"/api/v1/users/{name}/reset-link")
                assert answer.status_code == 403


class TestLockout:
    async def test_the_wait_grows_and_an_administrator_unlocks(self, stage: Stage) -> None:
        root = await stage.add_user("root", Role.ADMIN)
        await stage.add_user("ada")
        window = stage.settings.auth.failure_window

        async def attempt(client: httpx.AsyncClient, password: str) -> tuple[int, int]:
            await stage.store.delete_attempts("address:127.0.0.1")
            body = {"username": "ada", "password": password}
            answer = await client.post("/api/v1/auth/login", json=body)
            return answer.status_code, int(answer.headers.get("retry-after", 0))

        async with stage.client() as client, stage.client(await stage.token(root)) as program:
            for _ in range(stage.settings.auth.max_failures):
                await attempt(client, "wrong")
            assert await attempt(client, PASSWORD) == (429, window)
            stage.clock.move(window)
            assert (await attempt(client, "wrong"))[0] == 401
            assert await attempt(client, PASSWORD) == (429, 2 * window)
            locked = (await program.get("/api/v1/users/ada/protection")).json()
            assert locked["locked_until"] is not None
            assert (await program.post("/api/v1/users/ada/unlock")).status_code == 204
            assert (await attempt(client, PASSWORD))[0] == 200
            free = (await program.get("/api/v1/users/ada/protection")).json()
            assert free["locked_until"] is None

    async def test_logins_and_locks_are_in_the_audit_log(self, stage: Stage) -> None:
        await stage.add_user("root", Role.ADMIN)
        async with stage.client() as client:
            for _ in range(stage.settings.auth.max_failures + 1):
                body = {"username": "root", "password": "wrong"}
                await client.post("/api/v1/auth/login", json=body)
        stage.clock.move(stage.settings.auth.failure_window + 1)
        async with stage.browser("root") as client:
            found = (await client.get("/api/v1/admin/audit", params={"action": "login"})).json()
        said = [(each["outcome"], each["details"]) for each in reversed(found["items"])]
        most = stage.settings.auth.max_failures
        assert said[0] == ("denied", {"why": "not_authenticated"})
        assert said[most - 1] == ("denied", {"why": "not_authenticated", "locked": True})
        assert said[most] == ("denied", {"why": "rate_limited"})
        assert said[most + 1] == ("allowed", {"source": "password"})


class TestImpersonation:
    async def prepare(self, stage: Stage) -> Job:
        """Create an administrator, the user ada and a job of ada's."""
        await stage.add_user("root", Role.ADMIN)
        await stage.add_user("ada")
        job = make_job(owner="ada", project="ada")
        await stage.store.create_job(job)
        return job

    async def begin(self, stage: Stage, client: httpx.AsyncClient, name: str = "ada") -> None:
        answer = await client.post(f"/api/v1/users/{name}/impersonate")
        assert answer.status_code == 200, answer.text
        await self.reload(client)

    async def reload(self, client: httpx.AsyncClient) -> dict[str, object]:
        me: dict[str, object] = (await client.get("/api/v1/me")).json()
        client.headers["X-CSRF-Token"] = str(me["csrf_token"])
        return me

    async def test_impersonation_shows_what_user_sees_and_ends_on_request(
        self, stage: Stage
    ) -> None:
        job = await self.prepare(stage)
        async with stage.browser("root") as client:
            await self.begin(stage, client)
            me = await self.reload(client)
            assert me["user"]["name"] == "ada"  # type: ignore[index]
            assert me["impersonation"]["impersonator"] == "root"  # type: ignore[index]
            assert (await client.get("/api/v1/users")).status_code == 403
            assert (await client.get(f"/api/v1/jobs/{job.id}")).status_code == 200
            assert (await client.post(f"/api/v1/jobs/{job.id}/cancel")).status_code == 202
            assert (await client.post("/api/v1/auth/end-impersonation")).status_code == 204
            me = await self.reload(client)
            assert me["user"]["name"] == "root"  # type: ignore[index]
            assert me["impersonation"] is None
            assert (await client.post("/api/v1/auth/end-impersonation")).status_code == 409

    async def test_impersonation_ends_after_time_limit(self, stage: Stage) -> None:
        await self.prepare(stage)
        async with stage.browser("root") as client:
            await self.begin(stage, client)
            stage.clock.move(IMPERSONATION_S)
            assert (await self.reload(client))["user"]["name"] == "root"  # type: ignore[index]

    async def test_impersonation_refuses_actions_reserved_for_user(self, stage: Stage) -> None:
        job = await self.prepare(stage)
        async with stage.browser("root") as client:
            await self.begin(stage, client)
            for method, path, body in (
                ("POST", f"/api/v1/sessions/{job.id}/open", None),
                ("POST", f"/api/v1/jobs/{job.id}/resubmit", None),
                ("POST", "/api/v1/jobs", {"commands": ["id"], "project": "ada"}),
                ("GET", "/api/v1/tokens", None),
                ("POST", "/api/v1/tokens", {"name": "mine"}),
                ("DELETE", "/api/v1/tokens/x", None),
                ("POST", "/api/v1/auth/login-links", None),
                ("GET", "/api/v1/account/sign-ins", None),
                ("DELETE", "/api/v1/account/sign-ins", None),
                ("POST", "/api/v1/account/password", {"password": NEW}),
                ("POST", "/api/v1/account/second-factor", None),
                ("PATCH", "/api/v1/users/ada", {"display_name": "x"}),
                ("POST", "/api/v1/users/ada/impersonate", None),
            ):
                answer = await client.request(method, path, json=body)
                assert answer.status_code == 403, (path, answer.text)
            request = {
                "client_id": "jupyterhub",
                "redirect_uri": stage.platform.oauth.redirect_uri,
                "response_type": "code",
                "code_challenge": "x" * 43,
                "code_challenge_method": "S256",
            }
            client.headers["Sec-Fetch-Mode"] = "navigate"
            answer = await client.get("/api/oauth/authorize", params=request)
            assert answer.status_code == 403
            assert "location" not in answer.headers

    async def test_impersonation_of_administrators_or_with_token_is_refused(
        self, stage: Stage
    ) -> None:
        root = await stage.add_user("root", Role.ADMIN)
        await stage.add_user("second", Role.ADMIN)
        await stage.add_user("ada")
        await stage.add_user("gone")
        await stage.store.update_user("gone", disabled=True)
        async with stage.browser("root") as client:
            for name, status in (("second", 403), ("root", 403), ("gone", 409), ("nobody", 404)):
                answer = await client.post(f"/api/v1/users/{name}/impersonate")
                assert answer.status_code == status, name
        async with stage.client(await stage.token(root)) as program:
            assert (await program.post("/api/v1/users/ada/impersonate")).status_code == 409
        async with stage.browser("ada") as client:
            assert (await client.post("/api/v1/users/root/impersonate")).status_code == 403

    async def test_both_names_are_in_the_audit_log(self, stage: Stage) -> None:
        job = await self.prepare(stage)
        async with stage.browser("root") as client:
            await self.begin(stage, client)
            await client.post(f"/api/v1/jobs/{job.id}/cancel")
            await client.post("/api/v1/auth/end-impersonation")
            await self.reload(client)
            found = (await client.get("/api/v1/admin/audit")).json()["items"]
        said = {each["action"]: (each["actor"], each["impersonator"]) for each in found}
        assert said["impersonate_user"] == ("root", None)
        assert said["cancel_job"] == ("ada", "root")
        assert said["end_impersonation"] == ("ada", "root")
