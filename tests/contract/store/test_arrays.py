from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest

from aitne.core.errors import IllegalTransition
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.store import Store
from aitne.store.new_jobs import CreatedJob, Idempotency
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_array, make_task, make_task_group, store_job_token

S = JobState


class StoreWithTaskGroups(Store):
    """Keeps the tasks of a new array in one row where nothing differs but their index."""

    async def create_job(
        self, job: Job, tasks: Sequence[Job] = (), *, idempotency: Idempotency | None = None
    ) -> CreatedJob:
        indices = ",".join(str(task.array_task_id) for task in tasks)
        group = [make_task_group(job, indices)] if tasks else []
        same = all(group[0].make_task(task.array_task_id or 0) == task for task in tasks)
        return await super().create_job(job, group if same else tasks, idempotency=idempotency)


@pytest.fixture(params=[Store, StoreWithTaskGroups], ids=["rows", "task_group"])
async def store(request: pytest.FixtureRequest, url: str, clock: Clock) -> AsyncIterator[Store]:
    """A store with a row for each task of an array, and one with task groups."""
    store: Store = request.param(url, clock=clock)
    await store.start()
    yield store
    await store.close()


class TestArray:
    async def test_array_job_state_follows_its_tasks(self, store: Store, clock: Clock) -> None:
        array, tasks = make_array("0-2", state=S.QUEUED)
        await store.create_job(array, tasks)
        start = clock.pass_(1)
        await store.transition_job(tasks[1].id, S.RUNNING, JobChanges(started_at=start))
        now = await store.get_job(array.id)
        assert (now.state, now.started_at, now.version) == (S.RUNNING, start, 2)
        assert now.message == "3 tasks: 1 running, 2 queued."
        await store.transition_job(
            tasks[0].id, S.RUNNING, JobChanges(started_at=start + timedelta(seconds=9))
        )
        assert (await store.get_job(array.id)).started_at == start, "the first task's"
        for index, (task, state) in enumerate(
            zip(tasks, (S.COMPLETED, S.FAILED, S.CANCELLED), strict=True)
        ):
            await store.transition_job(
                task.id,
                state,
                JobChanges(
                    reason=TerminationReason(state.lower()),
                    ended_at=start + timedelta(minutes=index),
                ),
            )
        end = await store.get_job(array.id)
        assert (end.state, end.reason) == (S.FAILED, TerminationReason.FAILED)
        assert end.ended_at == start + timedelta(minutes=2)
        assert end.message == "3 tasks: 1 completed, 1 cancelled, 1 failed."
        assert [event.data["state"] for event in await store.list_job_events(array.id)] == [
            *("QUEUED", "RUNNING", "RUNNING", "RUNNING", "QUEUED", "FAILED"),
        ]

    async def test_array_job_end_removes_shared_token(self, store: Store, epoch: int) -> None:
        array, tasks = make_array("0-1", state=S.RUNNING)
        await store.create_job(array, tasks)
        await store_job_token(store, array.id, "hash", epoch=epoch)
        await store.transition_job(tasks[0].id, S.COMPLETED)
        found = await store.find_job_by_token("hash")
        assert found is not None
        assert found.id == array.id
        await store.transition_job(tasks[1].id, S.COMPLETED)
        assert await store.find_job_by_token("hash") is None

    async def test_a_retried_task_brings_it_back_to_life(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        array, tasks = make_array("0-1", state=S.COMPLETED, ended_at=clock.now)
        await store.create_job(array, tasks)
        [whole] = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        assert whole.job_id == array.id
        await store.retry_job(tasks[1].id, epoch=epoch)
        [item] = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        assert (item.kind, item.job_id, item.attempt) == ("submit", tasks[1].id, 2)
        alive = await store.get_job(array.id)
        assert (alive.state, alive.ended_at, alive.attempt) == (S.PENDING_SUBMIT, None, 1)
        assert {job.id for job in await store.list_live_jobs()} == {array.id, tasks[1].id}
        # A task with a SUBMIT of its own is cancelled at once, like any job.
        done = await store.request_cancel(tasks[1].id, clock.now)
        assert done.state is S.CANCELLED
        assert (await store.get_job(array.id)).state is S.CANCELLED

    async def test_as_a_whole_it_is_not_retried(self, store: Store, epoch: int) -> None:
        array, tasks = make_array("0-1", state=S.FAILED)
        await store.create_job(array, tasks)
        with pytest.raises(IllegalTransition, match="tasks"):
            await store.retry_job(array.id, epoch=epoch)

    async def test_cancelled_before_it_was_submitted(self, store: Store, clock: Clock) -> None:
        array, tasks = make_array("0-2")
        await store.create_job(array, tasks)
        done = await store.request_cancel(array.id, clock.now)
        assert (done.state, done.ended_at) == (S.CANCELLED, clock.now)
        assert {task.state for task in await store.list_array_tasks(array.id)} == {S.CANCELLED}
        assert await store.get_outbox_depth() == (0, 0.0)

    async def test_cancelled_while_it_runs(self, store: Store, clock: Clock, epoch: int) -> None:
        array, tasks = make_array("0-3", state=S.QUEUED)
        await store.create_job(array, tasks)
        [submit] = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        await store.finish_outbox_items(submit.id, epoch=epoch)
        await store.transition_job(tasks[0].id, S.COMPLETED)
        await store.transition_job(tasks[1].id, S.RUNNING)
        wished = await store.request_cancel(array.id, clock.now)
        assert wished.cancel_requested_at == clock.now
        items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        assert [(item.kind, item.job_id) for item in items] == [("cancel", array.id)]
        now = await store.list_array_tasks(array.id)
        assert [task.cancel_requested_at for task in now] == [None, *[clock.now] * 3]
        await store.request_cancel(array.id, clock.pass_(1))
        assert await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60) == []

    async def test_cancelled_with_a_retried_task_or_without_one_to_keep(
        self, store: Store, clock: Clock, epoch: int
    ) -> None:
        array, tasks = make_array("0-3", state=S.RUNNING)
        await store.create_job(array, tasks)
        again = await store.retry_job(tasks[0].id, S.FAILED, epoch=epoch)
        await store.transition_job(again.id, S.SUBMITTING)
        submits = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=600)
        await store.finish_outbox_items(*(item.id for item in submits), epoch=epoch)
        await store.request_cancel(array.id, clock.now, keep={tasks[3].id})
        items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=600)
        assert {item.job_id for item in items} == {task.id for task in tasks[:3]}
        await store.finish_outbox_items(*(item.id for item in items), epoch=epoch)
        await store.request_cancel(array.id, clock.now)
        items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=600)
        assert {(item.job_id, item.attempt) for item in items} == {(again.id, 2), (array.id, 1)}

    async def test_task_is_read_by_its_index(self, store: Store) -> None:
        array, tasks = make_array("0-3,7")
        other, _ = make_array("5")
        await store.create_job(array, tasks)
        await store.create_job(other, [make_task(other, 5)])
        assert await store.find_array_task(array.id, 7) == tasks[4]
        for missing in (5, -1, 1 << 40, 1 << 80):
            assert await store.find_array_task(array.id, missing) is None

    async def test_a_task_cancelled_while_its_array_is_being_submitted(
        self, store: Store, clock: Clock
    ) -> None:
        """The submission takes all indices along, so ending the row at once would be a lie."""
        array, tasks = make_array("0-1")
        await store.create_job(array, tasks)
        wished = await store.request_cancel(tasks[0].id, clock.now)
        assert (wished.state, wished.cancel_requested_at) == (S.PENDING_SUBMIT, clock.now)
        assert (await store.get_outbox_depth())[0] == 2

    async def test_tasks_that_change_at_the_same_time(
        self, store: Store, other: Store, clock: Clock
    ) -> None:
        """There is no deadlock, and the array's row counts all changes."""
        array, tasks = make_array("0-19", state=S.RUNNING)
        await store.create_job(array, tasks)
        await asyncio.gather(
            *(
                (store, other)[index % 2].transition_job(task.id, S.COMPLETED)
                for index, task in enumerate(tasks)
            ),
            other.request_cancel(array.id, clock.now),
            store.request_cancel(tasks[3].id, clock.now),
        )
        end = await store.get_job(array.id)
        assert (end.state, end.message) == (S.COMPLETED, "20 tasks: 20 completed.")
