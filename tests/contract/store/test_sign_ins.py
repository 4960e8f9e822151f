from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from aitne.core.errors import Conflict, NotFound
from aitne.core.models.sign_in_records import SecondFactor, SignIn
from aitne.core.models.user import Role
from aitne.store import Store
from tests.contract.store.conftest import Clock
from tests.contract.store.test_users import add, user


def sign_in(clock: Clock, name: str = "ada", **overrides: object) -> SignIn:
    values = {
        "id": f"id-{name}",
        "owner": name,
        "source": "password",
        "device": "Firefox on Linux \0🚀",
        "address": "192.0.2.1",
        "created_at": clock.now,
        "last_seen_at": clock.now,
        "expires_at": clock.now + timedelta(hours=1),
    }
    return SignIn.model_validate(values | overrides)


class TestSignIns:
    async def test_log_in_and_out(self, store: Store, clock: Clock) -> None:
        await add(store, user())
        made = sign_in(clock, device="Firefox on Linux")
        await store.create_sign_in(made, "h", "csrf")
        found = await store.find_sign_in("h", clock.now, None)
        assert found is not None
        assert (found.user, found.csrf, found.sign_in) == (user(), "csrf", made)
        assert found.impersonator is None
        assert await store.find_sign_in_id("h") == "id-ada"
        assert await store.find_sign_in("other", clock.now, None) is None
        assert await store.find_sign_in("h", made.expires_at, None) is None
        await store.end_sign_in("h", clock.now)
        await store.end_sign_in("h", clock.now)
        assert await store.find_sign_in("h", clock.now, None) is None
        assert await store.find_sign_in_id("h") is None
        with pytest.raises(NotFound):
            await store.create_sign_in(sign_in(clock, "nobody"), "h", "csrf")

    async def test_sign_in_use_is_recorded_once_per_minute(
        self, store: Store, clock: Clock
    ) -> None:
        await add(store, user())
        await store.create_sign_in(sign_in(clock), "h", "csrf")
        begun = clock.now
        clock.pass_(59)
        await store.find_sign_in("h", clock.now, "192.0.2.2")
        (listed,) = await store.list_sign_ins("ada", clock.now)
        assert (listed.last_seen_at, listed.address) == (begun, "192.0.2.1")
        clock.pass_(1)
        found = await store.find_sign_in("h", clock.now, "192.0.2.2")
        (listed,) = await store.list_sign_ins("ada", clock.now)
        assert (listed.last_seen_at, listed.address) == (clock.now, "192.0.2.2")
        assert found is not None
        assert found.sign_in == listed

    async def test_the_list_has_what_holds_used_last_first(
        self, store: Store, clock: Clock
    ) -> None:
        await add(store, user(), user("bob"))
        for name, minutes, life in (("one", 3, 9), ("two", 1, 9), ("over", 1, 1)):
            made = sign_in(
                clock,
                id=name,
                last_seen_at=clock.now - timedelta(minutes=minutes),
                expires_at=clock.now + timedelta(minutes=life),
            )
            await store.create_sign_in(made, name, "csrf")
        await store.create_sign_in(sign_in(clock, "bob"), "b", "csrf")
        clock.pass_(60)
        assert [each.id for each in await store.list_sign_ins("ada", clock.now)] == ["two", "one"]

    async def test_sign_in_is_revoked_by_its_owner_only(self, store: Store, clock: Clock) -> None:
        await add(store, user(), user("bob"))
        await store.create_sign_in(sign_in(clock), "h", "csrf")
        with pytest.raises(NotFound):
            await store.revoke_sign_in("bob", "id-ada")
        assert await store.find_sign_in("h", clock.now, None) is not None
        await store.revoke_sign_in("ada", "id-ada")
        assert await store.find_sign_in("h", clock.now, None) is None

    async def test_all_but_one_are_revoked_with_unused_links(
        self, store: Store, clock: Clock
    ) -> None:
        await add(store, user(), user("bob"))
        later = clock.now + timedelta(minutes=1)
        for name in ("a", "b", "c"):
            await store.create_sign_in(sign_in(clock, id=name), name, "csrf")
        await store.create_sign_in(sign_in(clock, "bob"), "bobs", "csrf")
        await store.add_single_use_secret("login_link", "link", "ada", later, {})
        assert await store.revoke_sign_ins("ada", keep="b") == 2
        assert [each.id for each in await store.list_sign_ins("ada", clock.now)] == ["b"]
        assert await store.consume_single_use_secret("login_link", "link", clock.now) is None
        assert await store.revoke_sign_ins("ada") == 1
        assert await store.find_sign_in("bobs", clock.now, None) is not None

    @pytest.mark.parametrize("change", [{"disabled": True}, {"password_hash": "new"}])
    async def test_disabled_user_or_new_password_ends_all_sign_ins(
        self, store: Store, clock: Clock, change: dict[str, object]
    ) -> None:
        await add(store, user(), user("bob"))
        later = clock.now + timedelta(seconds=60)
        for owner in ("ada", "bob"):
            await store.create_sign_in(sign_in(clock, owner), owner, "csrf")
            await store.add_single_use_secret("login-link", owner, owner, later, {})
        await store.update_user("ada", **change)  # type: ignore[arg-type]
        await store.update_user("ada", disabled=False)
        assert await store.find_sign_in("ada", clock.now, None) is None
        assert await store.consume_single_use_secret("login-link", "ada", clock.now) is None
        assert await store.find_sign_in("bob", clock.now, None) is not None
        assert await store.consume_single_use_secret("login-link", "bob", clock.now) is not None

    async def test_a_harmless_update_ends_none(self, store: Store, clock: Clock) -> None:
        await add(store, user())
        await store.create_sign_in(sign_in(clock), "h", "csrf")
        await store.update_user("ada", display_name="A", disabled=False)
        assert await store.find_sign_in("h", clock.now, None) is not None

    async def test_ended_logins_are_noted_for_jupyterhub_until_it_has_heard(
        self, store: Store, clock: Clock
    ) -> None:
        await add(store, user())
        await add(store, user("eve"))
        await store.update_user("eve", display_name="Eve")
        assert await store.list_hub_logouts(clock.now) == []
        await store.create_sign_in(sign_in(clock), "h", "csrf")
        await store.add_single_use_secret(
            "oauth_code", "c", "ada", clock.now + timedelta(minutes=1), {}
        )
        await store.revoke_sign_in("ada", "id-ada")
        assert await store.consume_single_use_secret("oauth_code", "c", clock.now) is None
        await store.revoke_sign_ins("ada")
        await store.set_password("ada", "new", keep=None)
        (early,) = await store.list_hub_logouts(clock.now)
        assert (early.owner, early.count) == ("ada", 3)
        await store.update_user("eve", disabled=True)
        await store.revoke_sign_ins("ada")
        await store.finish_hub_logout(early)
        due = await store.list_hub_logouts(clock.now)
        assert [(each.owner, each.count) for each in due] == [("ada", 4), ("eve", 1)]
        await store.finish_hub_logout(due[0])
        assert await store.list_hub_logouts(clock.now) == [due[1]]

    async def test_an_own_password_keeps_the_sign_in_in_use(
        self, store: Store, clock: Clock
    ) -> None:
        await add(store, user())
        for name in ("a", "b"):
            await store.create_sign_in(sign_in(clock, id=name), name, "csrf")
        await store.set_password("ada", "new", keep="a")
        assert await store.find_password_hash("ada") == "new"
        assert [each.id for each in await store.list_sign_ins("ada", clock.now)] == ["a"]
        with pytest.raises(NotFound):
            await store.set_password("nobody", "new", keep=None)


class TestActingAs:
    async def stage(self, store: Store, clock: Clock) -> None:
        await add(store, user(role=Role.ADMIN), user("bob"), user("eve", role=Role.ADMIN))
        await store.create_sign_in(sign_in(clock), "h", "csrf")

    async def speaks_for(self, store: Store, clock: Clock) -> tuple[str, str | None, str]:
        found = await store.find_sign_in("h", clock.now, None)
        assert found is not None
        return found.user.name, found.impersonator, found.csrf

    async def test_until_it_ends(self, store: Store, clock: Clock) -> None:
        await self.stage(store, clock)
        await store.set_impersonation("h", "csrf2", "bob", clock.now + timedelta(minutes=5))
        assert await self.speaks_for(store, clock) == ("bob", "ada", "csrf2")
        clock.pass_(300)
        assert await self.speaks_for(store, clock) == ("ada", None, "csrf2")
        await store.set_impersonation("h", "csrf3", "bob", clock.now + timedelta(minutes=5))
        await store.set_impersonation("h", "csrf4", None, None)
        assert await self.speaks_for(store, clock) == ("ada", None, "csrf4")

    async def test_never_for_an_administrator_nor_by_somebody_else(
        self, store: Store, clock: Clock
    ) -> None:
        await self.stage(store, clock)
        until = clock.now + timedelta(minutes=5)
        await store.set_impersonation("h", "csrf", "eve", until)
        assert await self.speaks_for(store, clock) == ("ada", None, "csrf")
        await store.set_impersonation("h", "csrf", "bob", until)
        await store.update_user("bob", disabled=True)
        assert await self.speaks_for(store, clock) == ("ada", None, "csrf")
        await store.update_user("bob", disabled=False)
        assert (await self.speaks_for(store, clock))[0] == "bob"
        await store.update_user("ada", role=Role.USER)
        assert await self.speaks_for(store, clock) == ("ada", None, "csrf")

    async def test_impersonation_needs_existing_sign_in_and_user(
        self, store: Store, clock: Clock
    ) -> None:
        await self.stage(store, clock)
        with pytest.raises(NotFound):
            await store.set_impersonation("other", "csrf", "bob", clock.now)
        with pytest.raises(NotFound):
            await store.set_impersonation("h", "csrf", "nobody", clock.now)


class TestSubjects:
    async def test_a_source_knows_its_own(self, store: Store) -> None:
        await add(store, user(), user("bob"))
        tied = await store.set_identity_source("ada", "oidc", "iss#1")
        assert tied.source == "oidc"
        assert await store.find_user_by_subject("oidc", "iss#1") == tied
        assert await store.find_user_by_subject("ldap", "iss#1") is None
        assert await store.find_subject("ada") == "iss#1"
        assert await store.find_subject("bob") is None
        assert await store.find_password_hash("ada") is None
        with pytest.raises(Conflict):
            await store.set_identity_source("bob", "oidc", "iss#1")
        with pytest.raises(NotFound):
            await store.set_identity_source("nobody", "oidc", "iss#2")
        assert (await store.set_identity_source("ada", None, None)).source is None

    async def test_many_without_a_subject(self, store: Store) -> None:
        await add(store, user(), user("bob"))
        for name in ("ada", "bob"):
            assert (await store.set_identity_source(name, "ldap", None)).source == "ldap"


class TestLockouts:
    async def attempt(self, store: Store, clock: Clock) -> float | None:
        """Attempt a sign-in; return for how many seconds the name is locked.

        None means unlocked, -1 that the attempt was refused without a check.
        """
        found = await store.begin_login_attempt(
            "name", clock.now, max_failures=3, window_s=60.0, longest_s=200.0
        )
        if not found.counted:
            return -1
        until = found.locked_until
        return None if until is None else (until - clock.now).total_seconds()

    async def test_the_wait_doubles_up_to_the_longest(self, store: Store, clock: Clock) -> None:
        assert [await self.attempt(store, clock) for _ in range(4)] == [None, None, 60, -1]
        assert await store.find_lockout_end("name", clock.now) is not None
        assert await store.find_lockout_end("other", clock.now) is None
        for wait_s, next_s in ((60, 120), (120, 200), (200, 200)):
            clock.pass_(wait_s - 1)
            assert await self.attempt(store, clock) == -1
            clock.pass_(1)
            assert await self.attempt(store, clock) == next_s

    async def test_lockout_expires_or_is_cleared(self, store: Store, clock: Clock) -> None:
        for _ in range(2):
            await self.attempt(store, clock)
        clock.pass_(61)
        assert [await self.attempt(store, clock) for _ in range(3)] == [None, None, 60]
        clock.pass_(60 + 201)
        assert await self.attempt(store, clock) is None
        assert await store.delete_lockout("name")
        assert not await store.delete_lockout("name")
        assert [await self.attempt(store, clock) for _ in range(3)] == [None, None, 60]
        assert await store.delete_lockout("name")
        assert await store.find_lockout_end("name", clock.now) is None

    async def test_clearing_lockout_includes_keys_below(self, store: Store, clock: Clock) -> None:
        async def lock(key: str) -> None:
            await store.begin_login_attempt(
                key, clock.now, max_failures=1, window_s=60.0, longest_s=200.0
            )

        for key in ("a_", "a_/one", "a_b", "ab/one"):
            await lock(key)
        assert await store.delete_lockout("a_/two", below=True) is False
        assert await store.delete_lockout("a_")
        assert await store.find_lockout_end("a_/one", clock.now) is not None
        assert await store.delete_lockout("a_", below=True)
        locked = [await store.find_lockout_end(key, clock.now) for key in ("a_", "a_/one")]
        others = [await store.find_lockout_end(key, clock.now) for key in ("a_b", "ab/one")]
        assert locked == [None, None]
        assert None not in others

    async def test_old_lockouts_are_pruned(self, store: Store, clock: Clock) -> None:
        await self.attempt(store, clock)
        now = clock.pass_(31 * 86_400)
        await store.delete_old_records(events_before=now, idempotency_before=now)
        assert not await store.delete_lockout("name")
        await self.attempt(store, clock)
        now = clock.pass_(86_400)
        await store.delete_old_records(events_before=now, idempotency_before=now)
        assert await store.delete_lockout("name")

    async def test_of_many_at_once_no_more_are_looked_at(
        self, store: Store, other: Store, clock: Clock
    ) -> None:
        tries = [self.attempt(each, clock) for _ in range(5) for each in (store, other)]
        found = await asyncio.gather(*tries)
        assert sorted(found, key=str) == [-1] * 7 + [60, None, None]


class TestSecondFactors:
    def factor(self, clock: Clock, salt: str = "salt", owner: str = "ada") -> SecondFactor:
        return SecondFactor(owner=owner, salt=salt, created_at=clock.now)

    async def test_from_set_up_to_removal(self, store: Store, clock: Clock) -> None:
        await add(store, user())
        assert await store.find_second_factor("ada") is None
        assert not await store.confirm_second_factor("ada", clock.now, 7, {"c1"})
        await store.enrol_second_factor(self.factor(clock))
        await store.enrol_second_factor(self.factor(clock, "better"))
        found = await store.find_second_factor("ada")
        assert found == self.factor(clock, "better")
        assert await store.confirm_second_factor("ada", clock.now, 7, {"c1", "c2"})
        assert not await store.confirm_second_factor("ada", clock.now, 9, {"c3"})
        with pytest.raises(Conflict):
            await store.enrol_second_factor(self.factor(clock, "worse"))
        confirmed = await store.find_second_factor("ada")
        assert confirmed is not None
        assert (confirmed.salt, confirmed.confirmed_at, confirmed.last_step) == (
            "better",
            clock.now,
            7,
        )
        assert await store.count_recovery_codes("ada") == 2
        assert await store.delete_second_factor("ada")
        assert not await store.delete_second_factor("ada")
        assert await store.count_recovery_codes("ada") == 0
        with pytest.raises(NotFound):
            await store.enrol_second_factor(self.factor(clock, owner="nobody"))

    async def test_a_step_is_used_once(self, store: Store, other: Store, clock: Clock) -> None:
        await add(store, user())
        await store.enrol_second_factor(self.factor(clock))
        await store.confirm_second_factor("ada", clock.now, 7, ())
        assert not await store.use_time_step("ada", 7)
        used = await asyncio.gather(*(each.use_time_step("ada", 8) for each in (store, other)))
        assert sorted(used) == [False, True]
        assert not await store.use_time_step("ada", 6)
        assert await store.use_time_step("ada", 10)
        assert not await store.use_time_step("bob", 11)

    async def test_a_recovery_code_is_used_once(
        self, store: Store, other: Store, clock: Clock
    ) -> None:
        await add(store, user(), user("bob"))
        await store.replace_recovery_codes("ada", {"c1", "c2"})
        assert not await store.use_recovery_code("bob", "c1")
        used = await asyncio.gather(
            *(each.use_recovery_code("ada", "c1") for each in (store, other))
        )
        assert sorted(used) == [False, True]
        await store.replace_recovery_codes("ada", {"c3"})
        assert not await store.use_recovery_code("ada", "c2")
        assert await store.count_recovery_codes("ada") == 1
