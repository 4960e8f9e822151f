from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from aitne.core.errors import Conflict, InvalidInput, NotFound
from aitne.core.models.access_token import Scope, Token
from aitne.core.models.project import Project
from aitne.core.models.sign_in_records import SignIn
from aitne.core.models.user import Role, User
from aitne.core.models.user_project_search import ProjectSearch, UserSearch, UserSort
from aitne.store import Store
from aitne.store.credentials import MAX_TOKENS
from tests.contract.store.conftest import Clock
from tests.support.jobs import CREATED_AT


def user(name: str = "ada", project: str = "vision", **overrides: object) -> User:
    values = {"name": name, "default_project": project, "created_at": CREATED_AT}
    return User.model_validate(values | overrides)


async def add(store: Store, *people: User) -> None:
    for one in people:
        project = Project(name=one.default_project, title="T", created_at=CREATED_AT)
        await store.create_user(one, "hash", project)


def token(owner: str = "ada", **overrides: object) -> Token:
    values = {
        "id": "t1",
        "owner": owner,
        "name": "laptop 🚀",
        "scopes": {Scope.READ, Scope.WRITE},
        "created_at": CREATED_AT,
        "expires_at": None,
    }
    return Token.model_validate(values | overrides)


async def test_the_tokens_of_a_user_are_bounded(store: Store) -> None:
    await add(store, user(), user("bob"))
    for number in range(MAX_TOKENS):
        await store.create_token(token(id=f"t{number}"), f"hash{number}")
    with pytest.raises(Conflict, match="Revoke one"):
        await store.create_token(token(id="more"), "more")
    await store.create_token(token("bob", id="bobs"), "bobs")
    await store.delete_token("ada", "t0")
    await store.create_token(token(id="more"), "more")


class TestUsers:
    async def test_a_user_comes_with_a_project(self, store: Store) -> None:
        ada = user(display_name="Ada 'L' 🚀", role=Role.ADMIN)
        await add(store, ada, user("bob"), user("eve", "nlp"))
        assert await store.get_user("ada") == ada
        assert await store.find_password_hash("ada") == "hash"
        assert set(await store.list_user_roles("bob")) == {"vision"}
        assert await store.list_user_roles("nobody") == {}
        everything = await store.list_projects(visible_to=None)
        assert [(project.name, project.members) for project in everything] == [
            ("nlp", ("eve",)),
            ("vision", ("ada", "bob")),
        ]
        assert await store.list_projects(visible_to="ada") == [everything[1]]
        assert await store.list_projects(visible_to="nobody") == []

    async def test_a_name_is_taken_once(self, store: Store) -> None:
        await add(store, user())
        with pytest.raises(Conflict, match="another name"):
            await add(store, user(project="other"))
        assert len(await store.list_projects(visible_to=None)) == 1

    async def test_no_such_user(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.get_user("nobody")
        with pytest.raises(NotFound):
            await store.update_user("nobody", role=Role.ADMIN)
        with pytest.raises(NotFound):
            await store.update_user("nobody")
        assert await store.find_password_hash("nobody") is None

    async def test_an_enabled_administrator_always_remains(self, store: Store) -> None:
        await add(
            store, *(user(name, role=Role.ADMIN) for name in ("ada", "bob", "eve")), user("joe")
        )
        await store.update_user("eve", disabled=True)
        changes = (
            store.update_user("ada", role=Role.USER),
            store.update_user("bob", disabled=True),
        )
        results = await asyncio.gather(*changes, return_exceptions=True)
        (refused,) = [each for each in results if isinstance(each, BaseException)]
        assert isinstance(refused, Conflict)
        assert "only administrator" in refused.message
        (last,) = await store.list_administrators()
        await store.update_user("joe", disabled=True)
        with pytest.raises(Conflict):
            await store.update_user(last.name, role=Role.USER, disabled=True)
        await store.update_user(last.name, role=Role.ADMIN, disabled=False)
        assert await store.list_administrators() == [last]

    async def test_without_a_password(self, store: Store) -> None:
        await store.create_user(user(), None, Project(name="vision", created_at=CREATED_AT))
        assert await store.find_password_hash("ada") is None

    async def test_pages_by_name(self, store: Store) -> None:
        await add(store, *(user(name) for name in ("c", "a", "e", "b", "d")))
        seen, cursor = [], None
        while True:
            page = await store.list_users(cursor=cursor, limit=2)
            assert page.total == 5
            seen += [one.name for one in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert seen == ["a", "b", "c", "d", "e"]
        with pytest.raises(InvalidInput):
            await store.list_users(cursor="x")

    async def test_a_search_looks_at_names_and_addresses(self, store: Store) -> None:
        await add(store, user("ada", display_name="Countess L."), user("b_b"), user("babs"))
        await store.update_user("babs", mail="Babs@Example.org")

        async def found(text: str) -> list[str]:
            page = await store.list_users(UserSearch(q=text))
            assert page.total == len(page.items)
            return [one.name for one in page.items]

        assert await found("countess") == ["ada"]
        assert await found("BAB") == ["babs"]
        assert await found("@example") == ["babs"]
        assert await found("_") == ["b_b"]
        assert await found("%") == []

    @pytest.mark.parametrize("descending", [False, True])
    async def test_pages_by_last_login(self, store: Store, descending: bool) -> None:
        await add(store, *(user(name) for name in ("c", "a", "e", "b", "d")))
        for number, name in enumerate(("d", "b", "c")):
            at = CREATED_AT + timedelta(hours=number)
            sign_in = SignIn(
                id=name,
                owner=name,
                source="password",
                device="Firefox",
                address=None,
                created_at=at,
                last_seen_at=at,
                expires_at=at + timedelta(days=1),
            )
            await store.create_sign_in(sign_in, f"hash {name}", "csrf")
        await store.end_sign_in("hash b", CREATED_AT + timedelta(hours=2))
        seen, cursor = [], None
        while True:
            page = await store.list_users(
                sort=UserSort.LAST_LOGIN, descending=descending, cursor=cursor, limit=2
            )
            seen += [one.name for one in page.items]
            if (cursor := page.next_cursor) is None:
                break
        wanted = ["a", "e", "d", "b", "c"]
        assert seen == (wanted[::-1] if descending else wanted)
        (last,) = (await store.list_users(UserSearch(q="b"))).items
        assert last.last_login_at == CREATED_AT + timedelta(hours=1)
        by_name = (await store.list_users(limit=1)).next_cursor
        with pytest.raises(InvalidInput):
            await store.list_users(sort=UserSort.CREATED, cursor=by_name)

    async def test_filters_of_users(self, store: Store) -> None:
        await add(store, user("ada", role=Role.ADMIN), user("bob"), user("eve", disabled=True))
        for search, names in (
            (UserSearch(role=Role.ADMIN), ["ada"]),
            (UserSearch(disabled=True), ["eve"]),
            (UserSearch(disabled=False, role=Role.USER), ["bob"]),
        ):
            page = await store.list_users(search)
            assert ([one.name for one in page.items], page.total) == (names, len(names))

    async def test_projects_are_searched_in_pages(self, store: Store) -> None:
        await add(store, user("ada", "ada"), user("bob", "bob"), user("eve", "vision"))
        await store.save_member("vision", "bob", actor="root")
        await store.save_member("bob", "ada", actor="root")

        async def found(visible_to: str | None = None, **fields: object) -> list[str]:
            names: list[str] = []
            search, cursor = ProjectSearch.model_validate(fields), None
            while True:
                page = await store.search_projects(
                    search, visible_to=visible_to, cursor=cursor, limit=1
                )
                names += [project.name for project in page.items]
                assert all(project.members for project in page.items)
                if (cursor := page.next_cursor) is None:
                    assert len(names) == page.total
                    return names

        assert await found() == ["ada", "bob", "vision"]
        assert await found(q="VIS") == ["vision"]
        # A project with a second member is no longer personal.
        assert await found(personal=True) == ["ada"]
        assert await found(personal=False) == ["bob", "vision"]
        assert await found("eve") == ["vision"]
        assert await found("ada", personal=False) == ["bob"]
        assert await found(state="closed") == []

    async def test_update(self, store: Store) -> None:
        await add(store, user(), user("root", role=Role.ADMIN))
        changed = await store.update_user("ada", display_name="Ada", role=Role.ADMIN)
        assert changed == user(display_name="Ada", role=Role.ADMIN)
        assert await store.update_user("ada") == changed
        assert (await store.update_user("ada", disabled=True)).disabled
        assert not (await store.update_user("ada", disabled=False)).disabled
        await store.update_user("ada", password_hash="new")
        assert await store.find_password_hash("ada") == "new"
        assert (await store.get_user("ada")) == changed


class TestTokens:
    async def test_life_of_a_token(self, store: Store, clock: Clock) -> None:
        await add(store, user(), user("bob"))
        await store.create_token(token(), "hash")
        assert await store.list_tokens("ada") == [token()]
        assert await store.list_tokens("bob") == []
        assert await store.find_token_user("other", clock.now) is None
        used = await store.find_token_user("hash", clock.now)
        assert used == (user(), token(last_used_at=clock.now))
        with pytest.raises(NotFound):
            await store.delete_token("bob", "t1")
        await store.delete_token("ada", "t1")
        with pytest.raises(NotFound):
            await store.delete_token("ada", "t1")
        assert await store.find_token_user("hash", clock.now) is None

    async def test_token_use_is_recorded_once_per_minute(self, store: Store, clock: Clock) -> None:
        await add(store, user())
        await store.create_token(token(), "hash")
        start = clock.now
        for seconds, noted in ((0, 0), (59, 0), (1, 60), (30, 60)):
            now = clock.pass_(seconds)
            assert await store.find_token_user("hash", now) is not None
            [found] = await store.list_tokens("ada")
            assert found.last_used_at == start + timedelta(seconds=noted)

    async def test_expired_or_of_a_disabled_user(self, store: Store, clock: Clock) -> None:
        await add(store, user())
        await store.create_token(token(expires_at=clock.now + timedelta(seconds=9)), "hash")
        assert await store.find_token_user("hash", clock.now) is not None
        assert await store.find_token_user("hash", clock.now + timedelta(seconds=9)) is None
        await store.update_user("ada", disabled=True)
        assert await store.find_token_user("hash", clock.now) is None

    async def test_no_such_owner(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.create_token(token("nobody"), "hash")


class TestSecrets:
    async def test_once_in_time_and_for_its_purpose(self, store: Store, clock: Clock) -> None:
        later = clock.now + timedelta(seconds=60)
        await store.add_single_use_secret("code", "h", "ada", later, {"x": ["🚀", 1]})
        assert await store.consume_single_use_secret("login-link", "h", clock.now) is None
        assert await store.consume_single_use_secret("code", "h", clock.now) == (
            "ada",
            {"x": ["🚀", 1]},
        )
        assert await store.consume_single_use_secret("code", "h", clock.now) is None
        await store.add_single_use_secret("code", "h", "ada", later, {})
        assert await store.consume_single_use_secret("code", "h", later) is None
        assert await store.consume_single_use_secret("code", "h", clock.now) is None, (
            "too late is used up"
        )

    async def test_of_many_takers_one_gets_it(
        self, store: Store, other: Store, clock: Clock
    ) -> None:
        await store.add_single_use_secret("code", "h", "ada", clock.now + timedelta(seconds=60), {})
        taken = await asyncio.gather(
            *(
                which.consume_single_use_secret("code", "h", clock.now)
                for which in (store, other) * 4
            )
        )
        assert sum(found is not None for found in taken) == 1


async def test_attempts_within_a_window(store: Store, clock: Clock) -> None:
    counts = []
    for seconds in (0, 10, 10, 281, 300):
        counts.append(await store.record_attempt("ada", clock.pass_(seconds), window_s=300))
    assert counts == [1, 2, 3, 3, 1]
    assert await store.record_attempt("bob", clock.now, window_s=300) == 1
    await store.delete_attempts("ada")
    assert await store.record_attempt("ada", clock.now, window_s=300) == 1
