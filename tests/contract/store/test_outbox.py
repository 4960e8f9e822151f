from __future__ import annotations

import asyncio

import pytest

from aitne.adapters.store import SqlStore
from aitne.core.errors import StaleEpoch
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_job


async def test_items_are_leased_oldest_first_and_once(
    store: SqlStore, epoch: int, clock: Clock
) -> None:
    jobs = [make_job() for _ in range(5)]
    for job in jobs:
        await store.create_job(job)
    first = await store.lease_outbox(epoch=epoch, limit=2, lease_s=30)
    rest = await store.lease_outbox(epoch=epoch, limit=10, lease_s=30)
    assert [item.job_id for item in (*first, *rest)] == [job.id for job in jobs]
    assert {(item.kind, item.attempt, item.tries) for item in first} == {("submit", 1, 1)}
    assert first[0].created_at == clock.now
    assert await store.lease_outbox(epoch=epoch, limit=10, lease_s=30) == []


async def test_a_lease_that_ran_out_is_free_again(
    store: SqlStore, epoch: int, clock: Clock
) -> None:
    await store.create_job(make_job())
    await store.lease_outbox(epoch=epoch, limit=1, lease_s=30)
    clock.pass_(29.9)
    assert await store.lease_outbox(epoch=epoch, limit=1, lease_s=30) == []
    clock.pass_(0.2)
    [again] = await store.lease_outbox(epoch=epoch, limit=1, lease_s=30)
    assert again.tries == 2


async def test_finish_and_return(store: SqlStore, epoch: int, clock: Clock) -> None:
    for _ in range(2):
        await store.create_job(make_job())
    done, later = await store.lease_outbox(epoch=epoch, limit=2, lease_s=600)
    clock.pass_(7)
    assert await store.outbox_depth() == (2, 7.0)
    await store.finish_outbox(done.id, epoch=epoch)
    await store.return_outbox(later.id, epoch=epoch, delay_s=5)
    assert await store.lease_outbox(epoch=epoch, limit=2, lease_s=1) == []
    clock.pass_(5)
    [again] = await store.lease_outbox(epoch=epoch, limit=2, lease_s=1)
    assert again.id == later.id
    await store.finish_outbox(again.id, epoch=epoch)
    await store.finish_outbox(again.id, epoch=epoch)
    assert await store.outbox_depth() == (0, 0.0)


async def test_only_the_leader_touches_it(store: SqlStore, epoch: int, clock: Clock) -> None:
    await store.create_job(make_job())
    [item] = await store.lease_outbox(epoch=epoch, limit=1, lease_s=30)
    clock.pass_(7_200)
    successor = await store.take_lease("controller", "two", duration_s=30)
    assert successor is not None
    for act in (
        store.lease_outbox(epoch=epoch, limit=1, lease_s=30),
        store.finish_outbox(item.id, epoch=epoch),
        store.return_outbox(item.id, epoch=epoch, delay_s=0),
    ):
        with pytest.raises(StaleEpoch, match="Another controller"):
            await act
    [taken] = await store.lease_outbox(epoch=successor.epoch, limit=1, lease_s=30)
    assert taken.id == item.id


async def test_two_who_lease_at_once_never_get_the_same_item(
    store: SqlStore, other: SqlStore, epoch: int
) -> None:
    for _ in range(12):
        await store.create_job(make_job())
    batches = await asyncio.gather(
        *(
            which.lease_outbox(epoch=epoch, limit=3, lease_s=30)
            for _ in range(4)
            for which in (store, other)
        )
    )
    ids = [item.id for batch in batches for item in batch]
    assert len(ids) == len(set(ids))
