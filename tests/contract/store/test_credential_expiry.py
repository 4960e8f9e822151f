"""The ends of credentials, by time and by revocation."""

from __future__ import annotations

from datetime import timedelta

from aitne.core.jobs.states import JobState
from aitne.core.models.access_token import Token
from aitne.core.models.user import Role
from aitne.store import Store
from tests.contract.store.conftest import Clock
from tests.contract.store.test_sign_ins import sign_in
from tests.contract.store.test_users import add, token, user
from tests.support.jobs import make_session


def access_token(clock: Clock, id_: str, minutes: int | None) -> Token:
    """Return a token of ada that is valid for so many minutes; None: without an end."""
    expires_at = None if minutes is None else clock.now + timedelta(minutes=minutes)
    return token(id=id_, expires_at=expires_at)


async def test_expired_sign_ins_are_noted_for_jupyterhub_until_it_has_heard(
    store: Store, clock: Clock
) -> None:
    await add(store, user(), user("eve"))
    soon = clock.now + timedelta(minutes=1)
    for name in ("over", "out", "same", "other"):
        expires_at = soon if name == "over" else soon + timedelta(hours=1)
        made = sign_in(clock, id=name, expires_at=expires_at)
        await store.create_sign_in(made, name, "csrf")
    await store.create_sign_in(sign_in(clock, "eve"), "eve", "csrf")
    await store.end_sign_in("out", clock.now)
    await store.replace_sign_in("same", "ada", clock.now)
    await store.replace_sign_in("other", "eve", clock.now)
    assert await store.find_sign_in_id("same") is None
    assert [each.id for each in await store.list_sign_ins("ada", clock.now)] == ["over"]
    clock.pass_(60)
    await store.delete_old_records(events_before=clock.now, idempotency_before=clock.now)
    (due,) = await store.list_hub_logouts(clock.now)
    assert (due.owner, due.count) == ("ada", 0)
    assert (due.expired, due.kept_sign_in_ids) == ({"over", "out", "other"}, {"same"})
    clock.pass_(3_600)
    await store.finish_hub_logout(due)
    left = {each.owner: each for each in await store.list_hub_logouts(clock.now)}
    assert (left["ada"].expired, left["ada"].kept_sign_in_ids) == ({"same"}, frozenset())
    assert left["eve"].expired == {"id-eve"}
    await store.revoke_sign_ins("ada")
    assert [each.kept_sign_in_ids for each in await store.list_hub_logouts(clock.now)] == [
        frozenset()
    ] * 2


async def test_each_credential_is_reported_once_when_its_time_is_over(
    store: Store, clock: Clock
) -> None:
    await add(store, user(role=Role.ADMIN), user("bob"))
    begun = clock.now
    assert await store.find_next_expiry(begun) is None
    await store.create_sign_in(sign_in(clock, expires_at=begun + timedelta(minutes=9)), "h", "csrf")
    await store.set_impersonation("h", "csrf2", "bob", begun + timedelta(minutes=5))
    for name, minutes in (("t", 7), ("endless", None)):
        await store.create_token(access_token(clock, name, minutes), f"hash {name}")
    seen = []
    for _ in range(3):
        due = await store.find_next_expiry(clock.now)
        assert due is not None
        before, clock.now = clock.now, due
        seen.append((due - begun, await store.list_expired_credentials(before, due)))
    assert seen == [
        (timedelta(minutes=5), {"id-ada/bob"}),
        (timedelta(minutes=7), {"t"}),
        (timedelta(minutes=9), {"id-ada"}),
    ]
    assert await store.find_next_expiry(clock.now) is None
    assert not await store.list_expired_credentials(clock.now, clock.now + timedelta(days=1))


async def test_validity_of_a_credential_ends_with_its_time_and_its_revocation(
    store: Store, clock: Clock
) -> None:
    await add(store, user(role=Role.ADMIN), user("bob"))
    await store.create_sign_in(sign_in(clock), "h", "csrf")
    await store.set_impersonation("h", "csrf2", "bob", clock.now + timedelta(minutes=5))
    for name, minutes in (("t", 5), ("endless", None)):
        await store.create_token(access_token(clock, name, minutes), f"hash {name}")
    session = make_session(owner="bob", project="bob")
    await store.create_job(session)
    names = ("id-ada", "id-ada/bob", "id-ada/eve", "t", "endless", str(session.id), "", "none")

    async def valid() -> set[str]:
        return {name for name in names if await store.is_credential_valid(name, clock.now)}

    assert await valid() == {"id-ada", "id-ada/bob", "t", "endless", str(session.id)}
    clock.pass_(300)
    assert await valid() == {"id-ada", "endless", str(session.id)}
    await store.delete_token("ada", "endless")
    await store.end_sign_in("h", clock.now)
    await store.transition_job(session.id, JobState.CANCELLED)
    assert await valid() == set()
