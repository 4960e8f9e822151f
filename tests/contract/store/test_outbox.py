from __future__ import annotations

import asyncio

import pytest

from aitne.core.errors import StaleEpoch
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.store import Store
from aitne.store.action_outbox import OutboxItem
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_job


async def test_items_are_leased_oldest_first_and_once(
    store: Store, epoch: int, clock: Clock
) -> None:
    jobs = [make_job() for _ in range(5)]
    for job in jobs:
        await store.create_job(job)
    first = await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=30)
    rest = await store.lease_outbox_items(epoch=epoch, limit=10, lease_s=30)
    assert [item.job_id for item in (*first, *rest)] == [job.id for job in jobs]
    assert {(item.kind, item.attempt, item.tries) for item in first} == {("submit", 1, 1)}
    assert first[0].created_at == clock.now
    assert await store.lease_outbox_items(epoch=epoch, limit=10, lease_s=30) == []


async def test_a_lease_that_ran_out_is_free_again(store: Store, epoch: int, clock: Clock) -> None:
    await store.create_job(make_job())
    await store.lease_outbox_items(epoch=epoch, limit=1, lease_s=30)
    clock.pass_(29.9)
    assert await store.lease_outbox_items(epoch=epoch, limit=1, lease_s=30) == []
    clock.pass_(0.2)
    [again] = await store.lease_outbox_items(epoch=epoch, limit=1, lease_s=30)
    assert again.tries == 2


async def test_finish_and_return(store: Store, epoch: int, clock: Clock) -> None:
    for _ in range(2):
        await store.create_job(make_job())
    done, later = await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=600)
    clock.pass_(7)
    assert await store.get_outbox_depth() == (2, 7.0)
    await store.finish_outbox_items(done.id, epoch=epoch)
    await store.return_outbox_items(later.id, epoch=epoch, delay_s=5)
    assert await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=1) == []
    clock.pass_(5)
    [again] = await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=1)
    assert again.id == later.id
    await store.finish_outbox_items(again.id, epoch=epoch)
    await store.finish_outbox_items(again.id, epoch=epoch)
    assert await store.get_outbox_depth() == (0, 0.0)


async def test_only_the_leader_touches_it(store: Store, epoch: int, clock: Clock) -> None:
    job = make_job()
    await store.create_job(job)
    [item] = await store.lease_outbox_items(epoch=epoch, limit=1, lease_s=30)
    clock.pass_(7_200)
    successor = await store.acquire_lease("controller", "two", duration_s=30)
    assert successor is not None
    for act in (
        store.lease_outbox_items(epoch=epoch, limit=1, lease_s=30),
        store.finish_outbox_items(item.id, epoch=epoch),
        store.return_outbox_items(item.id, epoch=epoch, delay_s=0),
        store.hold_outbox_items({item.id: job}, epoch=epoch),
    ):
        with pytest.raises(StaleEpoch, match="Another controller"):
            await act
    [taken] = await store.lease_outbox_items(epoch=successor.epoch, limit=1, lease_s=30)
    assert taken.id == item.id


async def test_two_who_lease_at_once_never_get_the_same_item(
    store: Store, other: Store, epoch: int
) -> None:
    for _ in range(12):
        await store.create_job(make_job())
    batches = await asyncio.gather(
        *(
            which.lease_outbox_items(epoch=epoch, limit=3, lease_s=30)
            for _ in range(4)
            for which in (store, other)
        )
    )
    ids = [item.id for batch in batches for item in batch]
    assert len(ids) == len(set(ids))


async def test_owners_take_turns(store: Store, epoch: int, clock: Clock) -> None:
    bobs = [make_job(owner="bob") for _ in range(5)]
    for job in bobs:
        await store.create_job(job)
    clock.pass_(1)
    alices = [make_job(owner="alice") for _ in range(2)]
    for job in alices:
        await store.create_job(job)
    served = []
    while items := await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=30):
        served += [item.job_id for item in items]
    order = (bobs[0], alices[0], bobs[1], alices[1], *bobs[2:])
    assert served == [job.id for job in order]


async def test_items_come_in_the_order_in_which_they_became_due(
    store: Store, epoch: int, clock: Clock
) -> None:
    first, second = make_job(), make_job()
    await store.create_job(first)
    [item] = await store.lease_outbox_items(epoch=epoch, limit=1, lease_s=30)
    await store.return_outbox_items(item.id, epoch=epoch, delay_s=5)
    clock.pass_(1)
    await store.create_job(second)
    clock.pass_(10)
    items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=30)
    assert [each.job_id for each in items] == [second.id, first.id]


async def leased_child(store: Store, epoch: int) -> tuple[Job, OutboxItem]:
    """Create a queued job and another one; return the first, and the leased item of the other."""
    parent, child = make_job(state=JobState.QUEUED), make_job()
    for job in (parent, child):
        await store.create_job(job)
    own, held = await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=600)
    await store.finish_outbox_items(own.id, epoch=epoch)
    return parent, held


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        (JobState.COMPLETED, JobChanges()),
        (JobState.CANCELLED, JobChanges()),
        (JobState.RUNNING, JobChanges(scheduler_id="7")),
    ],
)
async def test_an_item_is_held_until_its_dependency_ends_or_has_an_id(
    store: Store, epoch: int, clock: Clock, state: JobState, changes: JobChanges
) -> None:
    parent, held = await leased_child(store, epoch)
    await store.hold_outbox_items({held.id: parent}, epoch=epoch)
    await store.transition_job(parent.id, JobState.STARTING)
    clock.pass_(7_200)
    assert await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=30) == []
    assert await store.get_outbox_depth() == (0, 0.0)
    await store.transition_job(parent.id, state, changes)
    [due] = await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=30)
    assert (due.id, due.tries) == (held.id, 2)


async def test_an_item_is_not_held_for_a_dependency_that_has_changed_since(
    store: Store, epoch: int
) -> None:
    parent, held = await leased_child(store, epoch)
    await store.transition_job(parent.id, JobState.COMPLETED)
    await store.hold_outbox_items({held.id: parent}, epoch=epoch)
    [due] = await store.lease_outbox_items(epoch=epoch, limit=2, lease_s=30)
    assert due.id == held.id


async def test_no_item_stays_held_when_its_dependency_ends_at_the_same_time(
    store: Store, other: Store, epoch: int
) -> None:
    parents = [make_job(state=JobState.QUEUED) for _ in range(10)]
    children = [make_job() for _ in parents]
    for job in (*parents, *children):
        await store.create_job(job)
    items = await store.lease_outbox_items(epoch=epoch, limit=20, lease_s=600)
    await store.finish_outbox_items(*(item.id for item in items[:10]), epoch=epoch)
    held = {item.id: parent for item, parent in zip(items[10:], parents, strict=True)}
    await asyncio.gather(
        *(
            store.hold_outbox_items({number: parent}, epoch=epoch)
            for number, parent in held.items()
        ),
        *(other.transition_job(parent.id, JobState.COMPLETED) for parent in parents),
    )
    due = await store.lease_outbox_items(epoch=epoch, limit=20, lease_s=30)
    assert {item.id for item in due} == set(held)
