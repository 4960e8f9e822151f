"""Task groups behave as tasks with rows of their own do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aitne.core.errors import NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.job import JobChanges, JobFilter
from aitne.core.models.job_search import JobSort
from aitne.store import Store
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_array, make_job, make_task_group

S = JobState


@pytest.fixture
async def plain(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    """A store in which each task has a row of its own from the beginning."""
    store = Store(f"sqlite:///{tmp_path / 'plain.db'}", clock=clock)
    await store.start()
    yield store
    await store.close()


async def test_lists_and_counts_are_those_of_single_rows(
    store: Store, plain: Store, clock: Clock
) -> None:
    for number in range(2):
        created_at = clock.pass_(0)  # both are of the same moment
        array, tasks = make_array("0-8", state=S.QUEUED, created_at=created_at)
        single = make_job(state=S.QUEUED, created_at=created_at)
        for each in (single, array):
            group = [make_task_group(array)] if each is array else []
            await store.create_job(each, group)
            await plain.create_job(each, tasks if each is array else [])
        for index, state in {3: S.RUNNING, 4: S.RUNNING, number: S.COMPLETED}.items():
            at = JobChanges(
                started_at=clock.pass_(1), ended_at=clock.now if state.is_terminal else None
            )
            for each in (store, plain):
                await each.transition_job(tasks[index].id, state, at)
    assert len(await store.list_array_rows(array.id)) < len(await plain.list_array_rows(array.id))
    filters = [
        JobFilter(),
        JobFilter(array_job_id=array.id),
        JobFilter(array=False, states=frozenset({S.QUEUED, S.RUNNING})),
        JobFilter(top_level_only=True),
    ]
    for where in filters:
        counts = await plain.count_jobs(where, visible_to=None)
        assert await store.count_jobs(where, visible_to=None) == counts
        for sort in JobSort:
            for descending in (True, False):
                pages = [
                    await _ids(each, where, sort, descending=descending) for each in (store, plain)
                ]
                assert pages[0] == pages[1], (where, sort, descending)
    assert await store.count_jobs_by_state() == await plain.count_jobs_by_state()
    assert await store.count_live_jobs(array.owner) == await plain.count_live_jobs(array.owner)
    shown = [
        [(task.id, task.state, task.scheduler_id) for task in await each.list_array_tasks(array.id)]
        for each in (store, plain)
    ]
    assert shown[0] == shown[1]


async def _ids(
    store: Store, where: JobFilter, sort: JobSort, *, descending: bool
) -> list[tuple[int, list[str]]]:
    """Return the total and the job ids of all pages."""
    pages, cursor = [], None
    while True:
        page = await store.list_jobs(
            where, visible_to=None, cursor=cursor, limit=5, sort=sort, descending=descending
        )
        pages.append((page.total, [job.id.hex for job in page.items]))
        cursor = page.next_cursor
        if cursor is None:
            return pages


async def test_task_has_a_row_of_its_own_from_its_first_change_on(
    store: Store, clock: Clock, epoch: int
) -> None:
    array, tasks = make_array("0-9999")
    group = make_task_group(array)
    await store.create_job(array, [group])
    await store.transition_job(group.id, S.SUBMITTING)
    queued = await store.transition_job(group.id, S.QUEUED, JobChanges(scheduler_id="17"))
    assert len(await store.list_array_rows(array.id)) == 1
    task = await store.get_job(tasks[42].id)
    assert (task.state, task.array_task_id, task.scheduler_id) == (S.QUEUED, 42, "17_42")
    assert task.version == queued.version
    started = await store.transition_job(task.id, S.RUNNING, version=task.version)
    assert started.version > task.version
    rows = await store.list_array_rows(array.id)
    assert {row.array_task_ids for row in rows} == {None, "0-41,43-9999"}
    assert (await store.get_job(array.id)).message == "10000 tasks: 1 running, 9999 queued."
    history = [event.data["state"] for event in await store.list_job_events(task.id)]
    assert history == ["SUBMITTING", "QUEUED", "RUNNING"]
    # Of the whole array one wish is enough, and one change for all that wait.
    await store.request_cancel(array.id, clock.now)
    wishes = [
        item.job_id for item in await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=9)
    ]
    assert wishes == [array.id, array.id]  # to submit it, and to end it
    await store.transition_job(group.id, S.CANCELLED, JobChanges(ended_at=clock.now))
    await store.transition_job(task.id, S.CANCELLED, JobChanges(ended_at=clock.now))
    assert (await store.get_job(array.id)).state is S.CANCELLED
    assert len(await store.list_array_rows(array.id)) == 2


async def test_task_is_cancelled_alone(store: Store, clock: Clock, epoch: int) -> None:
    array, tasks = make_array("0-4", state=S.QUEUED)
    await store.create_job(array, [make_task_group(array)])
    wished = await store.request_cancel(tasks[1].id, clock.now, "Cancelled by ada.")
    assert wished.cancel_requested_at == clock.now
    assert (await store.get_job(tasks[2].id)).cancel_requested_at is None
    items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=9)
    assert [item.job_id for item in items] == [array.id, tasks[1].id]


async def test_submission_is_held_for_a_task_that_waits(
    store: Store, clock: Clock, epoch: int
) -> None:
    array, tasks = make_array("0-4", state=S.QUEUED)
    await store.create_job(array, [make_task_group(array)])
    other = make_job()
    await store.create_job(other)
    items = {
        item.job_id: item
        for item in await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=9)
    }
    task = await store.get_job(tasks[1].id)
    await store.hold_outbox_items({items[other.id].id: task}, epoch=epoch)
    clock.pass_(9)
    leased = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=9)
    assert [item.job_id for item in leased] == [array.id]
    await store.transition_job(task.id, S.RUNNING)
    await store.transition_job(task.id, S.COMPLETED, JobChanges(ended_at=clock.now))
    leased = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=9)
    assert [item.job_id for item in leased] == [other.id]


async def test_task_group_is_no_job(store: Store) -> None:
    array, _ = make_array("0-4")
    group = make_task_group(array)
    await store.create_job(array, [group])
    with pytest.raises(NotFound):
        await store.get_job(group.id)
    assert await store.find_jobs([group.id]) == [group]
    for unknown in (make_array("5")[1][0].id, make_job().id):
        with pytest.raises(NotFound):
            await store.get_job(unknown)
    assert await store.find_array_task(array.id, 5) is None


async def test_history_of_a_task_ends_its_group_where_it_left_it(store: Store) -> None:
    array, tasks = make_array("0-4")
    await store.create_job(array, [make_task_group(array)])
    group = make_task_group(array)
    await store.transition_job(group.id, S.SUBMITTING)
    await store.split_tasks(array.id, [1])
    await store.transition_job(group.id, S.QUEUED)
    history = [event.data["state"] for event in await store.list_job_events(tasks[1].id)]
    assert history == ["SUBMITTING"]
    history = [event.data["state"] for event in await store.list_job_events(tasks[2].id)]
    assert history == ["SUBMITTING", "QUEUED"]


async def test_place_in_the_queue_counts_each_task_once(store: Store) -> None:
    queued = {"state": S.QUEUED, "partition": "gpu", "priority": 7}
    array, tasks = make_array("0-4", **queued)
    await store.create_job(array, [make_task_group(array)])
    await store.split_tasks(array.id, [1])
    for task in tasks[:2]:
        place = await store.find_queue_position(await store.get_job(task.id))
        assert place is not None
        assert place.waiting == 6 - 1 + 1, "the array, its other tasks and this one"


async def test_tasks_leave_a_task_group_at_the_same_time(store: Store, other: Store) -> None:
    array, tasks = make_array("0-19", state=S.QUEUED)
    await store.create_job(array, [make_task_group(array)])

    async def read(index: int) -> None:
        for _ in range(20):
            assert (await store.get_job(tasks[index].id)).array_task_id == index

    await asyncio.gather(
        *(
            each.transition_job(task.id, S.RUNNING)
            for each, task in zip((store, other) * 10, tasks, strict=True)
        ),
        *(read(index) for index in range(0, 20, 5)),
        other.split_tasks(array.id, [3, 3, 4, 99]),
    )
    assert (await store.get_job(array.id)).message is None, "all of them run"
    assert [row.array_task_id for row in await store.list_array_rows(array.id)] == [*range(20)]
