"""Snapshots of jobs: their placement, output files and measured values."""

from __future__ import annotations

from uuid import uuid4

import pytest
from sqlalchemy import func, select

from aitne.core.errors import NotFound
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import JobChanges
from aitne.store import Store
from aitne.store.job_snapshots_and_files import MOST_SNAPSHOTS, DocumentKind
from aitne.store.snapshot_and_sweep_tables import snapshot_parts
from tests.support.jobs import CREATED_AT, make_array, make_job

TAKEN = {
    "workdir": "/home/ada",
    "git": {"commit": "a" * 40, "diff": "+\u0000 🦊\n"},
    "environment": {"packages": {"torch": "2.13.0"}},
    "host": {"node": "n1"},
}


async def test_the_snapshot_of_a_job_comes_back_whole(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    assert await store.find_snapshot(job.id) is None
    before = await store.get_last_event_id()
    await store.save_snapshot(job.id, {"workdir": "/tmp", "git": None})
    assert await store.find_snapshot(job.id) == {"workdir": "/tmp", "git": None}
    await store.save_snapshot(job.id, TAKEN)
    assert await store.find_snapshot(job.id) == TAKEN
    events = await store.list_events_after(before)
    assert [(each.kind, each.job_id, each.owner) for each in events] == [
        ("job.snapshot", job.id, job.owner)
    ], "of each job one is kept"
    assert [event.kind for event in await store.list_job_events(job.id)] == ["job.created"]
    with pytest.raises(NotFound):
        await store.save_snapshot(uuid4(), TAKEN)


async def test_a_stored_placement_is_announced_outside_the_history(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    before = await store.get_last_event_id()
    for nodes in (["n1", "n2"], ["n2", "n1"]):
        await store.save_document(job.id, DocumentKind.PLACEMENT, {"order": nodes})
    events = await store.list_events_after(before)
    assert [(each.kind, each.job_id, each.owner) for each in events] == [
        ("job.placement", job.id, job.owner)
    ], "of each job one is kept"
    assert [event.kind for event in await store.list_job_events(job.id)] == ["job.created"]


async def test_snapshot_parts_shared_by_tasks_are_stored_once(store: Store) -> None:
    array, tasks = make_array("0-3")
    await store.create_job(array, tasks)
    for number, task in enumerate(tasks):
        await store.save_snapshot(task.id, {**TAKEN, "host": {"node": f"n{number}"}})
    async with store._db.read() as connection:
        count = (
            await connection.execute(select(func.count()).select_from(snapshot_parts))
        ).scalar()
    assert count == 2
    found = [await store.find_snapshot(task.id) for task in tasks]
    assert [each and each["host"]["node"] for each in found] == ["n0", "n1", "n2", "n3"]


async def test_a_job_cannot_fill_the_database_with_snapshots(store: Store) -> None:
    job = (await store.create_job(make_job())).job
    for number in range(MOST_SNAPSHOTS + 5):
        await store.save_snapshot(job.id, {"git": {"diff": str(number)}})
    assert await store.find_snapshot(job.id) == {"git": {"diff": str(MOST_SNAPSHOTS - 1)}}
    async with store._db.read() as connection:
        query = select(func.count()).select_from(snapshot_parts)
        assert (await connection.execute(query)).scalar() == MOST_SNAPSHOTS


async def test_the_values_of_tasks_are_told_of_once_for_their_array(store: Store) -> None:
    array, tasks = make_array("0-2")
    await store.create_job(array, tasks)
    alone = (await store.create_job(make_job())).job
    before = await store.get_last_event_id()
    for number in (1, 2):
        for task in tasks[:2]:
            await store.save_document(task.id, DocumentKind.VALUES, {"values": {"a": number}})
            await store.save_document(task.id, DocumentKind.SERIES, {"a": [[0, number]]})
        await store.save_document(alone.id, DocumentKind.VALUES, {"values": {"a": number}})
        await store.save_document(alone.id, DocumentKind.FILES, {"files": []})
    events = [(each.kind, each.job_id) for each in await store.list_events_after(before)]
    assert events == [("sweep.changed", array.id)]
    assert await store.list_task_values(array.id) == {
        task.id: {"values": {"a": 2}} for task in tasks[:2]
    }
    assert await store.find_document(tasks[0].id, DocumentKind.SERIES) == {"a": [[0, 2]]}
    assert await store.find_document(tasks[2].id, DocumentKind.VALUES) is None
    assert await store.list_task_values(alone.id) == {}
    with pytest.raises(NotFound):
        await store.save_document(uuid4(), DocumentKind.FILES, {})


async def test_the_others_are_cancelled_and_the_kept_go_on(store: Store) -> None:
    array, tasks = make_array("0-3")
    await store.create_job(array, tasks)
    for task in tasks[:2]:
        for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING):
            await store.transition_job(task.id, state)
    kept = tasks[0].id
    array = await store.request_cancel(array.id, CREATED_AT, "Good enough.", keep={kept})
    found = {task.array_task_id: task for task in await store.list_array_tasks(array.id)}
    assert found[0].cancel_requested_at is None
    assert found[0].state is JobState.RUNNING
    assert all(found[task].cancel_requested_at == CREATED_AT for task in (1, 2, 3))
    assert found[1].message == "Good enough."
    assert array.cancel_requested_at is None, "the array goes on with what is kept"
    assert not array.state.is_terminal
    await store.request_cancel(array.id, CREATED_AT, "All.")
    assert (await store.get_job(kept)).message == "All."


async def test_a_sweep_is_completed_when_it_has_reached_its_goal(store: Store) -> None:
    array, tasks = make_array("0-2")
    await store.create_job(array, tasks)
    for task in tasks[:2]:
        for state in (JobState.SUBMITTING, JobState.QUEUED, JobState.RUNNING):
            await store.transition_job(task.id, state)
    said, why = "Task 0 reached the goal: accuracy 0.98.", TerminationReason.GOAL_REACHED
    array = await store.request_cancel(array.id, CREATED_AT, said, keep={tasks[0].id}, reason=why)
    assert (array.state, array.reason, array.message) == (JobState.RUNNING, why, said)
    cancelled = JobChanges(ended_at=CREATED_AT)
    for task in tasks[1:]:
        rest = await store.transition_job(task.id, JobState.CANCELLED, cancelled)
        assert (rest.reason, rest.message) == (why, said)
    completed = JobChanges(reason=TerminationReason.COMPLETED, ended_at=CREATED_AT)
    await store.transition_job(tasks[0].id, JobState.COMPLETED, completed)
    array = await store.get_job(array.id)
    assert (array.state, array.reason, array.message) == (JobState.COMPLETED, why, said)
    assert array.ended_at == CREATED_AT


async def test_of_two_tasks_that_are_good_enough_at_once_one_is_kept(store: Store) -> None:
    array, tasks = make_array("0-2", state=JobState.RUNNING)
    await store.create_job(array, tasks)
    for winner in tasks[:2]:
        await store.request_cancel(
            array.id, CREATED_AT, keep={winner.id}, unless_cancelled=winner.id
        )
    found = await store.list_array_tasks(array.id)
    assert [task.cancel_requested_at for task in found] == [None, CREATED_AT, CREATED_AT]


async def test_snapshot_and_values_of_former_attempt_are_hidden_after_retry(
    store: Store,
) -> None:
    job = (await store.create_job(make_job())).job
    lease = await store.acquire_lease("controller", "test", duration_s=60)
    assert lease is not None
    await store.save_snapshot(job.id, {"git": {"commit": "a"}})
    await store.save_document(job.id, DocumentKind.VALUES, {"values": {"loss": 1}})
    await store.transition_job(job.id, JobState.FAILED)
    assert await store.find_snapshot(job.id) == {"git": {"commit": "a"}}, (
        "it ended, and this is of it"
    )
    again = await store.retry_job(job.id, epoch=lease.epoch)
    assert again.attempt == 2
    assert await store.find_snapshot(job.id) is None
    assert await store.find_document(job.id, DocumentKind.VALUES) is None
    await store.save_snapshot(job.id, {"git": {"commit": "b"}})
    await store.save_document(job.id, DocumentKind.VALUES, {"values": {"loss": 2}})
    assert await store.find_snapshot(job.id) == {"git": {"commit": "b"}}
    assert await store.find_document(job.id, DocumentKind.VALUES) == {"values": {"loss": 2}}
