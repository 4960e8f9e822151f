"""Inboxes, choices, webhooks, deliveries and activity, on both databases."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from aitne.core.errors import Conflict, InvalidInput, NotFound, StaleEpoch
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import JobChanges
from aitne.core.models.notification import (
    Delivery,
    DeliveryState,
    NewDelivery,
    NewNotification,
    NotificationChoices,
    NotificationContent,
    NotificationKind,
    Webhook,
)
from aitne.store import Store
from tests.contract.store.conftest import Clock
from tests.contract.store.test_users import add, user
from tests.support.jobs import make_job, make_session

KIND = NotificationKind.JOB_FINISHED


def told(owner: str = "ada", event_id: int = 1, **overrides: object) -> NewNotification:
    notice = NotificationContent(
        kind=KIND, title="digits has finished", path="/jobs/1", data={"n": 1}
    )
    return NewNotification.model_validate(
        {"owner": owner, "event_id": event_id, "notice": notice} | overrides
    )


def to_hook(target: str = "wh_1", owner: str = "ada") -> NewDelivery:
    return NewDelivery(channel="webhook", owner=owner, target=target, message={"title": "t"})


def hook(clock: Clock, name: str = "wh_1", owner: str = "ada") -> Webhook:
    return Webhook(id=name, owner=owner, url="https://a.example/x", created_at=clock.now)


class TestTelling:
    async def test_notifications_deliveries_and_the_cursor_are_one_transaction(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user(), user("bob"))
        assert await store.get_event_cursor("n") == 0
        everything = [told(deliveries=(to_hook(),)), told("bob"), told("gone")]
        assert (
            await store.add_notifications(everything, cursor="n", since=0, until=7, epoch=epoch)
            == 2
        )
        assert await store.get_event_cursor("n") == 7
        (mine,) = (await store.list_notifications("ada")).items
        assert (mine.title, mine.event_id, mine.read_at) == ("digits has finished", 1, None)
        assert mine.data == {"n": 1}
        added = [e for e in await store.list_events_after(0) if e.kind == "notification.added"]
        assert [(e.owner, e.data["popup"]) for e in added] == [("ada", True), ("bob", True)]
        assert added[0].data["id"] == mine.id
        (sent,) = await store.lease_deliveries(epoch=epoch, limit=10, lease_s=60)
        assert (sent.owner, sent.tries) == ("ada", 1)

    async def test_events_read_twice_create_one_notification(
        self, store: Store, other: Store, epoch: int
    ) -> None:
        await add(store, user())
        await store.add_notifications(
            [told(deliveries=(to_hook(),))], cursor="n", since=0, until=5, epoch=epoch
        )
        with pytest.raises(Conflict):
            await other.add_notifications(
                [told(deliveries=(to_hook(),))], cursor="n", since=0, until=5, epoch=epoch
            )
        assert (
            await other.add_notifications([told()], cursor="n", since=5, until=6, epoch=epoch) == 0
        )
        assert (await store.list_notifications("ada")).total == 1
        assert len(await store.lease_deliveries(epoch=epoch, limit=10, lease_s=60)) == 1

    async def test_controller_without_lease_creates_no_notifications(
        self, store: Store, epoch: int
    ) -> None:
        await add(store, user())
        await store.release_lease("controller", "test")
        with pytest.raises(StaleEpoch):
            await store.add_notifications([told()], cursor="n", since=0, until=5, epoch=epoch + 100)
        assert await store.get_event_cursor("n") == 0
        assert (await store.list_notifications("ada")).total == 0

    async def test_many_are_told_at_once(self, store: Store, epoch: int) -> None:
        names = [f"u{n}" for n in range(450)]
        await add(store, *(user(name) for name in names))
        all_told = [told(name) for name in names]
        assert (
            await store.add_notifications(all_told, cursor="n", since=0, until=1, epoch=epoch)
            == 450
        )

    async def test_when_anybody_was_told_of_something(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user())
        assert await store.find_last_notified_at(KIND, "/jobs/1") is None
        await store.add_notifications([told()], cursor="n", since=0, until=1, epoch=epoch)
        assert await store.find_last_notified_at(KIND, "/jobs/1") == clock.now
        assert await store.find_last_notified_at(KIND, "/jobs/2") is None


class TestInbox:
    async def test_pages_newest_first_and_what_is_unread(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user(), user("bob"))
        for n in range(1, 6):
            await store.add_notifications(
                [told(event_id=n), told("bob", n)], cursor="n", since=n - 1, until=n, epoch=epoch
            )
        first = await store.list_notifications("ada", limit=2)
        assert [each.event_id for each in first.items] == [5, 4]
        assert first.total == 5
        second = await store.list_notifications("ada", limit=2, cursor=first.next_cursor)
        assert [each.event_id for each in second.items] == [3, 2]
        read = [each.id for each in first.items]
        bobs = (await store.list_notifications("bob")).items[0].id
        assert await store.mark_notifications_read("ada", [*read, bobs], clock.now) == 3
        assert await store.count_unread_notifications("bob") == 5
        unread = await store.list_notifications("ada", unread_only=True)
        assert [each.event_id for each in unread.items] == [3, 2, 1]
        before = await store.get_last_event_id()
        assert await store.mark_notifications_read("ada", None, clock.now) == 0
        (said,) = await store.list_events_after(before)
        assert (said.kind, said.owner, said.data) == ("notification.read", "ada", {"unread": 0})
        assert await store.mark_notifications_read("ada", None, clock.now) == 0
        assert len(await store.list_events_after(before)) == 1
        with pytest.raises(InvalidInput):
            await store.list_notifications("ada", cursor="nonsense")

    async def test_old_ones_are_deleted_and_what_waits_to_be_sent_is_not(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user())
        await store.add_notifications(
            [told(deliveries=(to_hook(),))], cursor="n", since=0, until=1, epoch=epoch
        )
        await store.prune_notifications(clock.now + timedelta(seconds=1))
        assert (await store.list_notifications("ada")).total == 0
        assert len(await store.lease_deliveries(epoch=epoch, limit=10, lease_s=60)) == 1


class TestChoices:
    async def test_notification_choices_of_user_are_kept(self, store: Store, clock: Clock) -> None:
        await add(store, user(), user("bob"))
        assert await store.get_notification_choices("ada") == NotificationChoices()
        mine = NotificationChoices(choices={KIND: {"mail": False}}, quiet_until=clock.now)
        await store.save_notification_choices("ada", mine)
        assert await store.get_notification_choices("ada") == mine
        assert await store.list_notification_choices(["ada", "bob"]) == {"ada": mine}
        with pytest.raises(NotFound):
            await store.save_notification_choices("nobody", mine)

    async def test_notification_recipients_are_enabled_users(self, store: Store) -> None:
        await add(store, user(mail="ada@example.org"), user("bob"), user("eve"))
        await store.update_user("eve", disabled=True)
        assert [(each.name, each.mail) for each in await store.list_recipients()] == [
            ("ada", "ada@example.org"),
            ("bob", None),
        ]
        assert [each.name for each in await store.list_recipients(["bob", "eve"])] == ["bob"]
        assert (await store.update_user("ada", mail="")).mail is None
        assert await store.list_project_members("vision") == ["ada", "bob", "eve"]


class TestWebhooks:
    async def test_a_webhook_lives(self, store: Store, clock: Clock) -> None:
        await add(store, user(), user("bob"))
        await store.create_webhook(hook(clock), max_webhooks=1)
        with pytest.raises(Conflict, match="maximum"):
            await store.create_webhook(hook(clock, "wh_2"), max_webhooks=1)
        await store.create_webhook(hook(clock, "wh_3", "bob"), max_webhooks=1)
        assert [each.id for each in await store.list_webhooks("ada")] == ["wh_1"]
        assert [each.id for each in await store.list_enabled_webhooks(["ada", "bob"])] == [
            "wh_1",
            "wh_3",
        ]
        changed = await store.update_webhook("wh_1", url="https://b.example/", rotate=True)
        assert (changed.url, changed.generation) == ("https://b.example/", 2)
        off = await store.update_webhook("wh_1", disable=(clock.now, "why"))
        assert (off.disabled_at, off.disabled_why) == (clock.now, "why")
        assert [each.id for each in await store.list_enabled_webhooks(["ada"])] == []
        assert (await store.update_webhook("wh_1", enable=True)).disabled_at is None
        await store.add_delivery(to_hook())
        await store.delete_webhook("wh_1")
        for missing in (store.get_webhook, store.delete_webhook, store.update_webhook):
            with pytest.raises(NotFound):
                await missing("wh_1")
        assert (
            await store.list_deliveries(owner="ada", channel="webhook", target="wh_1", limit=9)
            == []
        )

    async def test_webhook_is_disabled_after_consecutive_failures(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user())
        await store.create_webhook(hook(clock), max_webhooks=9)

        async def deliver(state: DeliveryState, most: int | None = 2) -> bool:
            new = await store.add_delivery(to_hook())
            return await store.finish_delivery(
                new, state, epoch=epoch, error="no", disable_after=most
            )

        for _ in range(3):
            assert not await deliver(DeliveryState.FAILED, None), "it does not count"
        assert not await deliver(DeliveryState.FAILED)
        assert not await deliver(DeliveryState.SENT)
        assert not await deliver(DeliveryState.FAILED)
        assert await deliver(DeliveryState.FAILED)
        assert (await store.get_webhook("wh_1")).disabled_why == "no"
        (said,) = [e for e in await store.list_events_after(0) if e.kind == "webhook.disabled"]
        assert (said.owner, said.data["url"]) == ("ada", "https://a.example/x")
        assert not await deliver(DeliveryState.FAILED)


class TestDeliveries:
    async def test_a_lease_keeps_it_from_others_until_it_runs_out_or_its_lead_ends(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user())
        new = await store.add_delivery(to_hook())
        (first,) = await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60)
        assert first.id == new.id
        assert await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60) == []
        clock.pass_(61)
        (again,) = await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60)
        assert again.tries == 2
        lease = await store.find_lease("controller")
        assert lease is not None
        await store.release_lease("controller", lease.holder)
        taken = await store.acquire_lease("controller", "next", duration_s=60)
        assert taken is not None
        with pytest.raises(StaleEpoch):
            await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60)
        (third,) = await store.lease_deliveries(epoch=taken.epoch, limit=5, lease_s=60)
        assert third.tries == 3

    async def test_owners_take_turns_and_none_has_more_than_a_few(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user(), user("bob"))
        for owner in ("ada", "ada", "ada", "bob"):
            await store.add_delivery(to_hook(owner=owner))

        async def lease(limit: int) -> list[str]:
            found = await store.lease_deliveries(
                epoch=epoch, limit=limit, lease_s=60, max_per_owner=2
            )
            leased.extend(found)
            return sorted(each.owner for each in found)

        leased: list[Delivery] = []
        assert await lease(2) == ["ada", "bob"]
        assert await lease(9) == ["ada"]
        assert await lease(9) == []
        await store.finish_delivery(leased[0], DeliveryState.SENT, epoch=epoch)
        await store.finish_delivery(leased[2], DeliveryState.WAITING, epoch=epoch, delay_s=30)
        assert await lease(9) == ["ada"]
        clock.pass_(61)
        assert await lease(9) == ["ada", "ada", "bob"]

    async def test_a_try_that_failed_comes_again_after_a_while(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        await add(store, user())
        await store.add_delivery(to_hook())
        (one,) = await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60)
        await store.finish_delivery(
            one, DeliveryState.WAITING, epoch=epoch, status=503, error="busy", delay_s=30
        )
        assert await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60) == []
        clock.pass_(31)
        (one,) = await store.lease_deliveries(epoch=epoch, limit=5, lease_s=60)
        assert (one.status, one.error, one.tries) == (503, "busy", 2)
        await store.finish_delivery(one, DeliveryState.SENT, epoch=epoch, status=200)
        (log,) = await store.list_deliveries(owner="ada", channel="webhook", target="wh_1", limit=9)
        assert (log.state, log.status, log.finished_at) == (DeliveryState.SENT, 200, clock.now)
        with pytest.raises(NotFound):
            await store.add_delivery(to_hook(owner="nobody"))


class TestActivity:
    async def test_work_takes_warnings_back_and_old_news_does_not(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        job = (await store.create_job(make_session())).job
        start = clock.now
        await store.record_activity(job.id, active_at=start, seen_at=start)
        clock.pass_(100)
        assert await store.record_idle_warning(
            job.id, warned=1, at=clock.now, data={"n": 1}, epoch=epoch
        )
        assert not await store.record_idle_warning(
            job.id, warned=1, at=clock.now, data={"n": 1}, epoch=epoch
        )
        clock.pass_(1)
        await store.record_activity(
            job.id, active_at=start - timedelta(seconds=5), seen_at=clock.now
        )
        (known,) = await store.list_activities()
        assert (known.active_at, known.seen_at, known.warned) == (start, clock.now, 1)
        await store.record_activity(job.id, active_at=clock.now, seen_at=clock.now)
        (known,) = await store.list_activities()
        assert (known.active_at, known.warned, known.warned_at) == (clock.now, 0, None)
        kinds = [event.kind for event in await store.list_job_events(job.id)]
        assert kinds[1:] == ["session.idle", "session.active"]
        assert await store.record_activity(uuid4(), active_at=clock.now, seen_at=clock.now) is None

    async def test_small_activity_changes_are_not_stored_before_warning(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        job = (await store.create_job(make_session())).job
        start = clock.now

        async def note(active_s: int, seen_s: int) -> tuple[float, float]:
            at = [start + timedelta(seconds=each) for each in (active_s, seen_s)]
            await store.record_activity(job.id, active_at=at[0], seen_at=at[1], tolerance_s=60)
            (known,) = await store.list_activities()
            return (
                (known.active_at - start).total_seconds(),
                (known.seen_at - start).total_seconds(),
            )

        assert await note(0, 0) == (0, 0)
        assert await note(59, 59) == (0, 0)
        assert await note(59, 60) == (59, 60)
        assert await note(119, 119) == (119, 119)
        assert await note(119, 150) == (119, 119)
        clock.pass_(130)
        assert await store.record_idle_warning(job.id, warned=1, at=clock.now, data={}, epoch=epoch)
        assert await note(140, 141) == (140, 141), "who is warned and works is heard at once"
        (known,) = await store.list_activities()
        assert known.warned == 0

    async def test_ended_session_is_not_watched(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        job = (await store.create_job(make_session())).job
        await store.record_activity(job.id, active_at=clock.now, seen_at=clock.now)
        ended = await store.request_cancel(
            job.id, clock.now, "Ended after 1h.", reason=TerminationReason.IDLE
        )
        assert (ended.state, ended.reason) == (JobState.CANCELLED, TerminationReason.IDLE)
        assert await store.list_activities() == []

    async def test_a_wish_names_its_reason_while_the_job_still_runs(
        self, store: Store, clock: Clock
    ) -> None:
        job = (await store.create_job(make_session())).job
        for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.STARTING):
            await store.transition_job(job.id, state)
        await store.request_cancel(job.id, clock.now, "idle", reason=TerminationReason.IDLE)
        again = await store.request_cancel(job.id, clock.now, "by ada")
        assert (again.reason, again.message) == (TerminationReason.IDLE, "idle")

    async def test_jobs_with_idle_gpus_longest_first(self, store: Store, clock: Clock) -> None:
        one, two = [(await store.create_job(make_job())).job for _ in range(2)]
        earlier = clock.now - timedelta(hours=1)
        for job, since in ((one, clock.now), (two, earlier)):
            await store.transition_job(
                job.id, JobState.PENDING_SUBMIT, JobChanges(gpu_idle_since=since)
            )
        assert [job.id for job in await store.list_idle_gpu_jobs()] == [two.id, one.id]
        await store.request_cancel(two.id, clock.now)
        assert [job.id for job in await store.list_idle_gpu_jobs()] == [one.id]
