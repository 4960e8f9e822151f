"""Arrays whose waiting tasks share a row, on schedulers with a record for each task and with one for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.units import ArrayRange
from aitne.services.controller.poller import SETTLING_S
from tests.support.fakes import SlowStart
from tests.support.jobs import make_array, make_task_group


class OneRecord(SlowStart):
    """A scheduler with one record for the waiting tasks of an array, as Slurm has."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[tuple[object, ...], SchedulerJob] = {}

    async def poll(self) -> Sequence[SchedulerJob]:
        rows: list[SchedulerJob] = []
        groups: dict[tuple[str, JobState, TerminationReason | None], list[SchedulerJob]] = {}
        for row in await super().poll():
            if row.array_task_id is None or row.nodes or row.restart_count:
                rows.append(row)
            else:
                number = row.scheduler_id.partition("_")[0]
                groups.setdefault((number, row.state, row.reason), []).append(row)
        known, self._shared = self._shared, {}
        for (number, *_), tasks in groups.items():
            indices = tuple(row.array_task_id for row in tasks if row.array_task_id is not None)
            own = {
                "scheduler_id": number,
                "array_task_id": None,
                "array_task_ids": str(ArrayRange(indices)),
            }
            key = (number, tasks[0].state, own["array_task_ids"])
            self._shared[key] = known.get(key) or tasks[0].model_copy(update=own)
        return [*rows, *self._shared.values()]


@pytest.fixture(params=[SlowStart, OneRecord], ids=["single_records", "one_record"])
async def b(request: pytest.FixtureRequest, bench: Any) -> Any:
    """A bench on one of the schedulers."""
    return await bench(request.param())


async def _submitted(b: Any, indices: str) -> tuple[Job, list[Job]]:
    array, tasks = make_array(indices)
    await b.store.create_job(array, [make_task_group(array)])
    await b.outbox.drain()
    return array, tasks


def _start(b: Any, *numbers: str) -> None:
    for number in numbers:
        fields = {"nodes": ("node01",), "started_at": b.clock(), "pending_reason": None}
        b.scheduler.change(number, state=JobState.RUNNING, **fields)


async def test_waiting_tasks_have_one_row_with_the_reason(b: Any) -> None:
    array, tasks = await _submitted(b, "0-999")
    await b.poller.poll()
    task = await b.job(tasks[7].id)
    assert (task.state, task.message) == (JobState.QUEUED, "Waits because the test says so.")
    assert task.scheduler_id == "1_7"
    before = await b.store.get_last_event_id()
    await b.poller.poll()
    assert await b.store.get_last_event_id() == before, "nothing has changed"
    assert len(await b.store.list_array_rows(array.id)) == 1


async def test_tasks_that_start_have_rows_of_their_own(b: Any) -> None:
    array, tasks = await _submitted(b, "0-99")
    await b.poller.poll()
    _start(b, "1_0", "1_3")
    await b.poller.poll()
    assert await b.state(tasks[3].id) is JobState.STARTING
    assert len(await b.store.list_array_rows(array.id)) == 3
    b.scheduler.finish("1_3", JobState.FAILED, TerminationReason.FAILED, 1)
    await b.poller.poll()
    states = [task.state for task in await b.store.list_array_tasks(array.id)]
    assert states[:5] == [
        JobState.STARTING,
        *[JobState.QUEUED] * 2,
        JobState.FAILED,
        JobState.QUEUED,
    ]
    b.scheduler.let_go()
    await b.poller.poll()
    for number in range(100):
        if number != 3:
            b.scheduler.finish(f"1_{number}")
    await b.poller.poll()
    ended = await b.job(array.id)
    assert (ended.state, ended.message) == (
        JobState.FAILED,
        "100 tasks: 99 completed, 1 failed.",
    )
    await b.poller.poll()
    assert not [*b.live]


async def test_cancellation_of_an_array_ends_all_that_wait_in_one_row(b: Any) -> None:
    array, tasks = await _submitted(b, "0-9999")
    await b.poller.poll()
    _start(b, "1_0")
    await b.poller.poll()
    before = await b.store.get_last_event_id()
    await b.store.request_cancel(array.id, b.clock(), "Cancelled by ada.")
    await b.outbox.drain()
    assert b.scheduler.cancelled == ["1"]
    await b.poller.poller.poll()  # before it has heard of the request
    await b.poller.poll()
    assert await b.state(array.id) is JobState.CANCELLED
    last = await b.job(tasks[9999].id)
    assert (last.state, last.message) == (JobState.CANCELLED, "Cancelled by ada.")
    assert len(await b.store.list_array_rows(array.id)) == 2
    assert await b.store.get_last_event_id() - before < 20
    assert b.scheduler.searches == 0


async def test_tasks_cancelled_past_the_platform_end_alone(b: Any) -> None:
    array, tasks = await _submitted(b, "0-9")
    await b.poller.poll()
    for number in (2, 5):
        b.scheduler.finish(f"1_{number}", JobState.CANCELLED, TerminationReason.CANCELLED, None)
        b.scheduler.change(f"1_{number}", pending_reason=None)
    await b.poller.poll()
    ended = [
        task.array_task_id for task in await b.store.list_array_tasks(array.id) if task.ended_at
    ]
    assert ended == [2, 5]
    assert "not through the platform" in ((await b.job(tasks[5].id)).message or "")
    # One that is cancelled through the platform is so named to the scheduler.
    await b.store.request_cancel(tasks[4].id, b.clock())
    await b.outbox.drain()
    assert b.scheduler.cancelled == ["1_4"]
    await b.poller.poll()
    assert await b.state(tasks[4].id) is JobState.CANCELLED
    assert await b.state(tasks[3].id) is JobState.QUEUED


async def test_tasks_that_vanish_are_looked_for_each_by_itself(b: Any) -> None:
    array, tasks = await _submitted(b, "0-9")
    await b.poller.poll()
    b.clock.advance(SETTLING_S + 1)
    for number in (1, 8):
        del b.scheduler.records[f"1_{number}"]
    for _ in range(7):
        await b.poller.poll()
        b.clock.advance(11)
    # The scheduler still has their array, so they were cancelled there while they waited.
    for number in range(10):
        state = (await b.job(tasks[number].id)).state
        assert state is (JobState.CANCELLED if number in (1, 8) else JobState.QUEUED), number
    del b.scheduler.records["1_0"]
    for number in (2, 3, 4, 5, 6, 7, 9):
        del b.scheduler.records[f"1_{number}"]
    for _ in range(8):
        await b.poller.poll()
        b.clock.advance(11)
    # Without their array they were lost before they began: their next attempts are to be submitted.
    attempts = [task.attempt for task in await b.store.list_array_tasks(array.id)]
    assert attempts == [2, 1, 2, 2, 2, 2, 2, 2, 1, 2]


async def test_task_that_leaves_its_group_during_the_submission_is_submitted_too(b: Any) -> None:
    array, tasks = make_array("0-3")
    submit = b.scheduler.submit

    async def heard_first(request: Any) -> str:
        number: str = await submit(request)
        assert await b.store.find_array_task(array.id, 2, own_row=True)
        return number

    b.scheduler.submit = heard_first
    await b.store.create_job(array, [make_task_group(array)])
    await b.outbox.drain()
    assert {task.scheduler_id for task in await b.store.list_array_tasks(array.id)} == {
        f"1_{index}" for index in range(4)
    }
    _start(b, "1_2")
    await b.poller.poll()
    assert await b.state(tasks[2].id) is JobState.STARTING


async def test_cancelled_array_of_which_tasks_are_gone_ends_task_by_task(b: Any) -> None:
    array, tasks = await _submitted(b, "0-9")
    await b.poller.poll()
    b.clock.advance(SETTLING_S + 1)
    for number in range(5):
        del b.scheduler.records[f"1_{number}"]
    await b.store.request_cancel(array.id, b.clock(), "Cancelled by ada.")
    await b.outbox.drain()
    await b.poller.poll()
    await b.poller.poll()
    assert await b.state(tasks[9].id) is JobState.QUEUED, "the others may have begun"
    b.clock.advance(1)
    await b.poller.poll()
    await b.poller.poll()
    assert await b.state(tasks[9].id) is JobState.CANCELLED
    assert await b.state(tasks[0].id) is JobState.QUEUED, "it is looked for by itself"


async def test_requeued_task_leaves_its_group(b: Any) -> None:
    array, _ = await _submitted(b, "0-9")
    b.scheduler.change("1_0", restart_count=1)
    await b.poller.poll()
    counts = [task.restart_count for task in await b.store.list_array_tasks(array.id)]
    assert counts == [1, *[0] * 9]
    assert len(await b.store.list_array_rows(array.id)) == 2


async def test_agent_is_heard_before_the_scheduler_tells_of_the_start(b: Any) -> None:
    array, tasks = await _submitted(b, "0-9")
    await b.poller.poll()
    row = await b.store.find_array_task(array.id, 6, own_row=True)
    assert row is not None
    assert row.id == tasks[6].id
    await b.poller.poll()
    assert await b.state(tasks[6].id) is JobState.QUEUED
    _start(b, "1_6")
    await b.poller.poll()
    assert await b.state(tasks[6].id) is JobState.STARTING


async def test_next_leader_knows_task_groups(b: Any) -> None:
    _, tasks = await _submitted(b, "0-9")
    _start(b, "1_2")
    await b.poller.poll()
    await b.live.load()
    _start(b, "1_9")
    await b.poller.poll()
    assert await b.state(tasks[9].id) is JobState.STARTING
    assert await b.state(tasks[8].id) is JobState.QUEUED
