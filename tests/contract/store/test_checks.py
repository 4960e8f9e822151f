"""Concurrent changes of the same version: the first succeeds, the second is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aitne.core.errors import ChangedMeanwhile, NotFound
from aitne.core.models.announcement import Maintenance
from aitne.core.models.limits import Limits
from aitne.core.models.notification import NotificationChoices, NotificationKind
from aitne.core.models.project import Step
from aitne.store import Store
from aitne.store.project_life_cycle import ProjectChange
from tests.contract.store.conftest import Clock
from tests.contract.store.test_administration import announcement
from tests.contract.store.test_notifications import hook
from tests.contract.store.test_users import add, user

Look = Callable[[Store], Awaitable[Any]]
Change = Callable[[Store, Clock, str, Callable[[Any], None]], Awaitable[Any]]


async def mail_and_choices(store: Store) -> Any:
    return (await store.get_user("ada")).mail, await store.get_notification_choices("ada")


RACES: dict[str, tuple[Look, Change]] = {
    "user": (
        lambda store: store.get_user("ada"),
        lambda store, _, word, check: store.update_user("ada", display_name=word, check=check),
    ),
    "project": (
        lambda store: store.get_project("ada"),
        lambda store, _, word, check: store.update_project(
            "ada", ProjectChange("title", {"title": word}), actor="ada", check=check
        ),
    ),
    "project's end": (
        lambda store: store.get_project("ada"),
        lambda store, clock, word, check: store.apply_project_step(
            "ada",
            Step.RENEW,
            actor=word,
            fields={"expires_at": clock.pass_(60)},
            check=check,
        ),
    ),
    "limits": (
        lambda store: store.get_limits("ada"),
        lambda store, _, word, check: store.set_limits(
            "ada", Limits(max_gpus=len(word)), actor=word, check=check
        ),
    ),
    "announcement": (
        lambda store: store.get_announcement("one"),
        lambda store, clock, word, check: store.save_announcement(
            announcement(clock, "one", text=word), check=check
        ),
    ),
    "maintenance": (
        lambda store: store.find_maintenance(),
        lambda store, clock, word, check: store.set_maintenance(
            Maintenance(starts_at=clock.now, message=word, created_at=clock.now, created_by="root"),
            check=check,
        ),
    ),
    "preference": (
        lambda store: store.find_preference("ada", "portal"),
        lambda store, _, word, check: store.save_preference(
            "ada", "portal", {"theme": word}, check=check
        ),
    ),
    "choices": (
        mail_and_choices,
        lambda store, _, word, check: store.save_notification_choices(
            "ada",
            NotificationChoices(choices={NotificationKind.JOB_FAILED: {"mail": False}}),
            mail=f"{word}@example.org",
            check=check,
        ),
    ),
    "webhook": (
        lambda store: store.get_webhook("wh_1"),
        lambda store, _, word, check: store.update_webhook(
            "wh_1", url=f"https://{word}.example/", check=check
        ),
    ),
}


@pytest.fixture
async def there(store: Store, clock: Clock) -> None:
    await add(store, user("ada", "ada"))
    await store.save_announcement(announcement(clock, "one"))
    await store.create_webhook(hook(clock), max_webhooks=1)


@pytest.mark.parametrize("what", RACES)
async def test_of_two_who_saw_the_same_one_is_refused(
    store: Store, other: Store, clock: Clock, there: None, what: str
) -> None:
    look, change = RACES[what]
    seen = await look(store)
    assert await look(other) == seen

    def check(present: Any) -> None:
        if present != seen:
            raise ChangedMeanwhile("It was changed.")

    ended = await asyncio.gather(
        change(store, clock, "first", check),
        change(other, clock, "other one", check),
        return_exceptions=True,
    )
    assert [type(each) for each in ended if isinstance(each, Exception)] == [ChangedMeanwhile]
    won = "first" if isinstance(ended[1], Exception) else "other one"
    after = await look(store)
    assert after != seen
    if what == "user":
        assert after.display_name == won


async def test_missing_announcement_is_neither_changed_nor_deleted(
    store: Store, clock: Clock, there: None
) -> None:
    await store.delete_announcement("one", check=lambda found: None)
    for again in (
        store.save_announcement(announcement(clock, "one"), check=lambda found: None),
        store.delete_announcement("one", check=lambda found: None),
    ):
        with pytest.raises(NotFound):
            await again


async def test_a_refused_deletion_deletes_nothing(store: Store, clock: Clock, there: None) -> None:
    def refuse(found: object) -> None:
        raise ChangedMeanwhile("It was changed.")

    with pytest.raises(ChangedMeanwhile):
        await store.delete_announcement("one", check=refuse)
    assert (await store.get_announcement("one")).id == "one"
