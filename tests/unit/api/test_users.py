from __future__ import annotations

import pytest

from aitne.core.models.access_token import Scope
from aitne.core.models.user import Actor, Role
from tests.support.jobs import make_job, make_session
from tests.support.stage import PASSWORD, Stage


async def test_an_administrator_makes_and_changes_accounts(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as admin:
        made = await admin.post(
            "/api/v1/users", json={"name": "ada", "password": PASSWORD, "display_name": "Ada"}
        )
        assert made.status_code == 201
        assert made.headers["location"] == "/api/v1/users/ada"
        assert made.json()["default_project"] == "ada"
        twice = await admin.post("/api/v1/users", json={"name": "ada"})
        assert (twice.status_code, twice.json()["code"]) == (409, "conflict")
        listed = (await admin.get("/api/v1/users")).json()
        assert [user["name"] for user in listed["items"]] == ["ada", "root"]
        assert listed["total"] == 2
        changed = await admin.patch("/api/v1/users/ada", json={"role": "admin"})
        assert changed.json()["role"] == "admin"
        projects = (await admin.get("/api/v1/projects")).json()["items"]
        assert sorted(project["name"] for project in projects) == ["ada", "root"]


async def test_a_new_user_may_have_a_mail_address(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as admin:
        made = await admin.post("/api/v1/users", json={"name": "ada", "mail": "ada@example.org"})
        assert made.json()["mail"] == "ada@example.org"
        bad = await admin.post("/api/v1/users", json={"name": "bob", "mail": "bob"})
        assert (bad.status_code, bad.json()["problems"][0]["field"]) == (422, "mail")


async def test_users_are_filtered_and_sorted_by_the_last_login(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    for name in ("ada", "bob"):
        await stage.add_user(name)
    async with stage.browser("bob"):
        pass
    async with stage.client(await stage.token(root)) as admin:
        query = "sort=last_login&order=desc&role=user"
        listed = (await admin.get(f"/api/v1/users?{query}")).json()["items"]
        assert [user["name"] for user in listed] == ["bob", "ada"]
        assert [user["last_login_at"] is None for user in listed] == [False, True]
        await admin.patch("/api/v1/users/ada", json={"disabled": True})
        assert (await admin.get("/api/v1/users?disabled=true")).json()["total"] == 1


async def test_users_come_in_pages(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    for name in ("ada", "bob", "cyd"):
        await stage.add_user(name)
    names: list[str] = []
    async with stage.client(await stage.token(root)) as admin:
        cursor: str | None = ""
        while cursor is not None:
            page = await admin.get(f"/api/v1/users?limit=3{cursor}")
            names += [user["name"] for user in page.json()["items"]]
            following = page.json()["next_cursor"]
            cursor = None if following is None else f"&cursor={following}"
    assert names == ["ada", "bob", "cyd", "root"]


async def test_a_user_sees_and_changes_only_themselves(stage: Stage) -> None:
    ada = await stage.add_user("ada")
    await stage.add_user("bob")
    async with stage.client(await stage.token(ada)) as client:
        assert (await client.get("/api/v1/users")).status_code == 403
        assert (await client.post("/api/v1/users", json={"name": "eve"})).status_code == 403
        assert (await client.get("/api/v1/users/bob")).status_code == 404
        assert (await client.get("/api/v1/users/nobody")).status_code == 404
        assert (await client.patch("/api/v1/users/bob", json={})).status_code == 404
        assert (await client.get("/api/v1/users/ada")).json()["name"] == "ada"
        mine = await client.patch("/api/v1/users/ada", json={"display_name": "Ada L."})
        assert mine.json()["display_name"] == "Ada L."
        for forbidden in ({"role": "admin"}, {"disabled": False}):
            assert (await client.patch("/api/v1/users/ada", json=forbidden)).status_code == 403
        projects = (await client.get("/api/v1/projects")).json()["items"]
        assert [project["name"] for project in projects] == ["ada"]


async def test_a_first_password_is_no_way_around_a_tokens_scopes(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    user = await stage.platform.users.create(root, name="ada", role=Role.ADMIN)
    ada, new = Actor(user=user), {"password": "another good password"}
    async with stage.client(await stage.token(ada, Scope.READ, Scope.WRITE)) as client:
        refused = await client.patch("/api/v1/users/ada", json=new)
        assert refused.status_code == 403
        assert "scope admin" in refused.json()["detail"]
    async with stage.client(await stage.token(ada)) as client:
        assert (await client.patch("/api/v1/users/ada", json=new)).status_code == 200


async def test_password_change_needs_current_password_and_ends_sign_ins(stage: Stage) -> None:
    await stage.add_user("ada")
    async with stage.browser("ada") as client:
        new = {"password": "another good password"}
        assert (await client.patch("/api/v1/users/ada", json=new)).status_code == 403
        wrong = {**new, "current_password": "wrong"}
        assert (await client.patch("/api/v1/users/ada", json=wrong)).status_code == 403
        right = {**new, "current_password": PASSWORD}
        assert (await client.patch("/api/v1/users/ada", json=right)).status_code == 200
        assert (await client.get("/api/v1/me")).status_code == 401
        old = {"username": "ada", "password": PASSWORD}
        assert (await client.post("/api/v1/auth/login", json=old)).status_code == 401
        good = {"username": "ada", "password": new["password"]}
        assert (await client.post("/api/v1/auth/login", json=good)).status_code == 200


async def test_a_disabled_account_can_do_nothing_any_more(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    ada = await stage.add_user("ada")
    secret = await stage.token(ada)
    async with stage.browser("ada") as browser, stage.client(secret) as program:
        await stage.platform.users.update(root, "ada", disabled=True)
        assert (await browser.get("/api/v1/me")).status_code == 401
        assert (await program.get("/api/v1/me")).status_code == 401
        again = {"username": "ada", "password": PASSWORD}
        assert (await browser.post("/api/v1/auth/login", json=again)).status_code == 401


async def test_the_sessions_of_a_disabled_account_end_and_its_jobs_do_not(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    await stage.add_user("ada")
    session = make_session(owner="ada")
    job = make_job(owner="ada")
    other = make_session(owner="root")
    for each in (session, job, other):
        await stage.store.create_job(each)
    await stage.platform.users.update(root, "ada", disabled=True)
    ended = await stage.store.get_job(session.id)
    assert (ended.state, "ada was disabled" in (ended.message or "")) == ("CANCELLED", True)
    for each in (job, other):
        assert (await stage.store.get_job(each.id)).state == "PENDING_SUBMIT"


@pytest.mark.parametrize("name", ["_ada", "ada"])
async def test_user_gets_own_project(stage: Stage, name: str) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    made = await stage.platform.users.create(root, name=name)
    assert made.default_project == {"_ada": "u_ada", "ada": "ada"}[name]


async def test_user_named_like_project_does_not_become_member(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    await stage.add_user("eve", project="bob")
    made = await stage.platform.users.create(root, name="bob")
    assert made.default_project == "bob-own"
    asked = await stage.platform.users.create(root, name="bea", default_project="bob")
    assert asked.default_project == "bob"


async def test_a_token_that_ends_makes_none_that_lasts_longer(stage: Stage) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root, lifetime_s=3_600)) as client:
        body = {"name": "x", "scopes": ["read"]}
        for longer in (None, "2h"):
            refused = await client.post("/api/v1/tokens", json={**body, "expires_in": longer})
            assert refused.status_code == 403
            assert "valid for longer" in refused.json()["detail"]
        made = await client.post("/api/v1/tokens", json={**body, "expires_in": "30m"})
        assert made.status_code == 201


@pytest.mark.parametrize("change", [{"role": "user"}, {"disabled": True}])
async def test_the_last_administrator_stays(stage: Stage, change: dict[str, object]) -> None:
    root = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(root)) as admin:
        refused = await admin.patch("/api/v1/users/root", json=change)
        assert refused.status_code == 409
        assert "only administrator" in refused.json()["detail"]
        await stage.add_user("second", Role.ADMIN)
        assert (await admin.patch("/api/v1/users/root", json=change)).status_code == 200
