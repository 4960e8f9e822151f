"""Announcements, maintenance and the history of nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aitne.core.errors import InvalidInput, NotFound
from aitne.core.models.announcement import Announcement, Maintenance, Severity
from aitne.core.models.cluster import Cluster, Node, NodeState
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.store import Store
from tests.contract.store.conftest import Clock


def announcement(clock: Clock, name: str, **fields: Any) -> Announcement:
    given: dict[str, Any] = {
        "severity": Severity.INFO,
        "text": "Something.",
        "starts_at": clock.now,
        "created_at": clock.now,
        "created_by": "root",
        "updated_at": clock.now,
    }
    return Announcement(id=name, **{**given, **fields})


async def kinds(store: Store, after: int = 0) -> list[str]:
    return [event.kind for event in await store.list_events_after(after)]


async def person(store: Store, clock: Clock, name: str) -> None:
    project = Project(name=name, created_at=clock.now)
    user = User(name=name, default_project=name, created_at=clock.now)
    await store.create_user(user, None, project)


async def test_only_what_is_current_is_shown_newest_first(store: Store, clock: Clock) -> None:
    hour = timedelta(hours=1)
    over = announcement(clock, "over", starts_at=clock.now - 2 * hour, ends_at=clock.now)
    now = announcement(clock, "now", projects=("vision",), starts_at=clock.now - hour)
    later = announcement(clock, "later", starts_at=clock.now + hour, ends_at=clock.now + 2 * hour)
    for each in (over, now, later):
        await store.save_announcement(each)
    assert (await store.list_announcements(current_at=clock.now)).items == (now,)
    assert (await store.list_announcements(current_at=clock.now + hour)).items == (later, now)
    first = await store.list_announcements(current_at=None, limit=2)
    assert (first.items, first.total) == ((later, now), 3)
    rest = await store.list_announcements(current_at=None, cursor=first.next_cursor)
    assert (rest.items, rest.next_cursor) == ((over,), None)
    with pytest.raises(InvalidInput):
        await store.list_announcements(current_at=None, cursor="bm9uc2Vuc2U")


async def test_an_announcement_is_changed_and_deleted_and_everybody_hears_of_it(
    store: Store, clock: Clock
) -> None:
    made = announcement(clock, "one")
    await store.save_announcement(made)
    changed = made.model_copy(update={"text": "Something else.", "severity": Severity.WARNING})
    await store.save_announcement(changed)
    assert await store.get_announcement("one") == changed
    await store.delete_announcement("one")
    assert await kinds(store) == ["announcement.changed"] * 3
    with pytest.raises(NotFound):
        await store.get_announcement("one")
    with pytest.raises(NotFound):
        await store.delete_announcement("one")


async def test_changed_announcement_is_shown_again_after_dismissal(
    store: Store, clock: Clock
) -> None:
    await person(store, clock, "ada")
    made = announcement(clock, "one")
    await store.save_announcement(made)
    for _ in range(2):
        await store.dismiss_announcement("one", "ada")
    assert await store.list_dismissed_announcements("ada") == {"one"}
    assert await store.list_dismissed_announcements("bob") == frozenset()
    await store.save_announcement(made.model_copy(update={"ends_at": clock.pass_(60)}))
    assert await store.list_dismissed_announcements("ada") == {"one"}
    await store.save_announcement(made.model_copy(update={"text": "News."}))
    assert await store.list_dismissed_announcements("ada") == frozenset()
    with pytest.raises(NotFound):
        await store.dismiss_announcement("unknown", "ada")


async def test_there_is_one_time_of_maintenance(store: Store, clock: Clock) -> None:
    assert await store.find_maintenance() is None
    window = Maintenance(
        starts_at=clock.now, message="New fans.", created_at=clock.now, created_by="root"
    )
    await store.set_maintenance(window)
    assert await store.find_maintenance() == window
    later = window.model_copy(update={"ends_at": clock.now + timedelta(hours=1)})
    await store.set_maintenance(later)
    assert await store.find_maintenance() == later
    await store.set_maintenance(None)
    assert await store.find_maintenance() is None
    assert await kinds(store) == ["maintenance.changed"] * 3


async def test_announcement_and_maintenance_periods_create_one_event_per_change(
    store: Store, clock: Clock
) -> None:
    start = clock.now
    soon, later = start + timedelta(minutes=1), start + timedelta(minutes=2)
    await store.save_announcement(announcement(clock, "one", starts_at=soon, ends_at=later))
    await store.set_maintenance(
        Maintenance(starts_at=soon, ends_at=later, created_at=start, created_by="root")
    )
    seen = await store.get_last_event_id()
    await store.append_start_and_end_events(start, soon - timedelta(seconds=1))
    assert await kinds(store, seen) == []
    await store.append_start_and_end_events(soon - timedelta(seconds=1), soon)
    assert await kinds(store, seen) == ["announcement.changed", "maintenance.changed"]
    await store.append_start_and_end_events(soon, later - timedelta(seconds=1))
    assert len(await kinds(store, seen)) == 2
    await store.append_start_and_end_events(later - timedelta(seconds=1), later)
    assert len(await kinds(store, seen)) == 4


def node(clock: Clock, state: NodeState, reason: str | None = None, name: str = "gpu01") -> Node:
    return Node(
        name=name,
        state=state,
        reason=reason,
        cpu_total=8,
        cpu_used=0,
        memory_total_bytes=1,
        memory_used_bytes=0,
        seen_at=clock.now,
    )


async def test_a_nodes_history_says_what_kept_it_from_work_and_who_did_it(
    store: Store, clock: Clock
) -> None:
    lease = await store.acquire_lease("controller", "test", duration_s=1e6)
    assert lease is not None

    async def see(*nodes: Node) -> None:
        clock.pass_(60)
        await store.save_cluster(Cluster(nodes=nodes), epoch=lease.epoch)

    await see(node(clock, NodeState.IDLE))
    await see(node(clock, NodeState.MIXED))
    await store.record_node_action("gpu01", "drain", actor="root", reason="new fans")
    await see(node(clock, NodeState.DRAINING, "new fans (root)"))
    await see(
        node(clock, NodeState.DRAINED, "new fans (root)"), node(clock, NodeState.IDLE, name="b")
    )
    await store.record_node_action("gpu01", "resume", actor="eve", reason=None)
    await see(node(clock, NodeState.ALLOCATED))
    await see()
    found = await store.list_node_events("gpu01")
    assert [(each.event, each.reason, each.actor) for each in reversed(found.items)] == [
        ("up", None, None),
        ("drain", "new fans", "root"),
        ("draining", "new fans (root)", None),
        ("drained", "new fans (root)", None),
        ("resume", None, "eve"),
        ("up", None, None),
        ("gone", None, None),
    ]
    assert found.total == 7
    first = await store.list_node_events("gpu01", limit=5)
    rest = await store.list_node_events("gpu01", limit=5, cursor=first.next_cursor)
    assert (*first.items, *rest.items) == found.items
    drains = await store.list_last_drains()
    assert {name: each.actor for name, each in drains.items()} == {"gpu01": "root"}
    clock.pass_(3 * 365 * 86_400)
    await store.delete_old_records(events_before=clock.now, idempotency_before=clock.now)
    assert (await store.list_node_events("gpu01")).total == 0
