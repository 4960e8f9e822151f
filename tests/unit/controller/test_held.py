"""Jobs that wait for others, for a time, or for a release."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from aitne.core.errors import Conflict
from aitne.core.jobs.array_job_state import task_id
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import RetryPolicy
from tests.support.fakes import SlowStart
from tests.support.jobs import make_array, make_job, make_task_group

FAILED = (JobState.FAILED, TerminationReason.FAILED, 1)


async def _create(b: Any, **spec: Any) -> Any:
    job = make_job(spec=spec, created_at=b.clock())
    await b.store.create_job(job)
    await b.outbox.drain()
    return job


async def _finish(b: Any, scheduler_id: str, *ending: Any) -> None:
    b.scheduler.finish(scheduler_id, *ending)
    await b.poller.poll()


def _drop(b: Any, scheduler_id: str) -> None:
    """Cancel a job as Slurm does whose dependency can never be satisfied: the record names no job."""
    b.scheduler.finish(scheduler_id, JobState.CANCELLED, TerminationReason.DEPENDENCY_FAILED)
    b.scheduler.change(scheduler_id, pending_reason=None)


async def test_each_kind_of_dependency_is_handed_on(bench: Any) -> None:
    b = await bench(SlowStart())
    first = await _create(b)
    array, _ = make_array("0-1")
    await b.store.create_job(array, [make_task_group(array)])
    await b.outbox.drain()
    await _create(b, afterany=[first.id], afternotok=[array.id])
    await _create(b, aftercorr=[array.id], array="0-1")
    assert (b.scheduler.requests[2].afterany, b.scheduler.requests[2].afternotok) == (
        ("1",),
        ("2",),
    )
    assert b.scheduler.requests[3].aftercorr == ("2",)


@pytest.mark.parametrize(
    ("kind", "ending", "submitted"),
    [
        ("after", (), True),
        ("after", FAILED, False),
        ("afterany", (), True),
        ("afterany", FAILED, True),
        ("afternotok", (), False),
        ("afternotok", FAILED, True),
    ],
)
async def test_ended_dependency_is_satisfied_or_cancels(
    bench: Any, kind: str, ending: Any, submitted: bool
) -> None:
    b = await bench()
    first = await _create(b)
    await _finish(b, "1", *ending)
    second = await b.job((await _create(b, **{kind: [first.id]})).id)
    if submitted:
        request = b.scheduler.requests[1]
        assert (request.after, request.afterany, request.afternotok) == ((), (), ())
        assert second.state is JobState.QUEUED
    else:
        assert second.state is JobState.CANCELLED
        assert second.reason is TerminationReason.DEPENDENCY_FAILED
        assert str(first.id) in (second.message or "")


async def test_cancelled_dependents_name_the_job_that_failed(bench: Any) -> None:
    b = await bench(SlowStart())
    first = await _create(b)
    second = await _create(b, after=[first.id])
    third = await _create(b, after=[second.id])
    reverse = await _create(b, afternotok=[third.id], hold=True)
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 3)
    for number in ("2", "3"):
        _drop(b, number)
    await b.poller.poll()
    ended = [await b.job(job.id) for job in (second, third)]
    assert [job.reason for job in ended] == [TerminationReason.DEPENDENCY_FAILED] * 2
    assert [job.message for job in ended] == [
        f"It was to run after job {first.id}, which ended FAILED with exit code 3.",
        f"It was to run after job {second.id}, which did not run because job {first.id} ended "
        "FAILED with exit code 3.",
    ]
    assert not (await b.job(reverse.id)).state.is_terminal
    late = await b.job((await _create(b, after=[third.id])).id)
    assert late.message == (
        f"It was to run after job {third.id}, which did not run because job {first.id} ended "
        "FAILED with exit code 3."
    )


async def test_a_dependent_of_one_failed_task_names_the_array(bench: Any) -> None:
    b = await bench(SlowStart())
    array, _ = make_array("0-1")
    await b.store.create_job(array, [make_task_group(array)])
    await b.outbox.drain()
    second = await _create(b, after=[array.id])
    _drop(b, "2")
    await b.poller.poll()
    assert (await b.job(second.id)).message == (
        f"It was to run after job {array.id}, which cannot end as that requires."
    )


async def test_afternotok_waits_for_the_last_retry(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.FAILED}))
    first = await _create(b, retry=policy)
    second = await _create(b, afternotok=[first.id])
    await _finish(b, "1", *FAILED)
    await b.outbox.drain()
    assert await b.state(second.id) is JobState.PENDING_SUBMIT
    await _finish(b, "2", *FAILED)
    await b.outbox.drain()
    assert await b.state(second.id) is JobState.QUEUED


async def test_singleton_waits_for_earlier_jobs_of_its_owner_and_name(bench: Any) -> None:
    b = await bench(SlowStart())
    first = await _create(b)
    others = [
        make_job(owner="bob", created_at=b.clock()),
        make_job(name="other", created_at=b.clock()),
    ]
    for job in others:
        await b.store.create_job(job)
    b.clock.advance(1)
    second = await _create(b, singleton=True)
    b.clock.advance(1)
    third = await _create(b, singleton=True)
    later = await _create(b)
    assert (await b.job(second.id)).message == (
        f"Waits for job {first.id} to end; it has the same name."
    )
    assert await b.state(later.id) is JobState.QUEUED
    await _finish(b, str((await b.job(first.id)).scheduler_id), *FAILED)
    await b.outbox.drain()
    assert [await b.state(job.id) for job in (second, third)] == [
        JobState.QUEUED,
        JobState.PENDING_SUBMIT,
    ]


async def test_begin_counts_from_the_creation(bench: Any) -> None:
    b = await bench()
    job = await _create(b, begin="2h")
    assert b.scheduler.requests[0].begin_at == job.created_at + timedelta(hours=2)
    await _create(b, begin="2026-01-31T20:00:00+01:00")
    assert b.scheduler.requests[1].begin_at.isoformat() == "2026-01-31T19:00:00+00:00"


async def test_hold_before_the_submission_goes_with_it(bench: Any) -> None:
    b = await bench(SlowStart())
    job = make_job()
    await b.store.create_job(job)
    held = await b.store.request_hold(job.id, True)
    assert (held.spec.hold, held.version) == (True, job.version + 1)
    await b.outbox.drain()
    assert b.scheduler.requests[0].hold
    assert b.scheduler.orders == [("hold", "1")]
    await b.poller.poll()
    await b.store.request_hold(job.id, False)
    await b.outbox.drain()
    assert b.scheduler.orders[-1] == ("release", "1")
    assert not (await b.job(job.id)).spec.hold


async def test_hold_of_a_job_that_has_started_is_withdrawn(bench: Any) -> None:
    b = await bench(SlowStart())
    job = await _create(b)
    await b.store.request_hold(job.id, True)
    b.scheduler.let_go()
    await b.outbox.drain()
    changed = await b.job(job.id)
    assert not changed.spec.hold
    assert changed.message == "Not held: Job 1 does not wait any more."
    await b.poller.poll()
    with pytest.raises(Conflict, match="only a job that waits"):
        await b.store.request_hold(job.id, True)


async def test_array_is_held_with_all_waiting_tasks_or_one_task_alone(bench: Any) -> None:
    b = await bench(SlowStart())
    array, _ = make_array("0-3%2")
    await b.store.create_job(array, [make_task_group(array)])
    await b.outbox.drain()
    await b.store.request_hold(task_id(array.id, 3), True)
    await b.outbox.drain()
    assert b.scheduler.orders == [("hold", "1_3")]
    assert [row.spec.hold for row in await b.store.list_array_tasks(array.id)] == [
        *(False, False, False, True)
    ]
    await b.store.request_hold(array.id, True)
    await b.outbox.drain()
    assert b.scheduler.orders[-1] == ("hold", "1")
    assert all(row.spec.hold for row in await b.store.list_array_tasks(array.id))


async def test_task_limit_of_an_array_can_be_changed(bench: Any) -> None:
    b = await bench(SlowStart())
    array, _ = make_array("0-3%2")
    await b.store.create_job(array, [make_task_group(array)])
    await b.outbox.drain()
    for limit, text in ((3, "0-3%3"), (None, "0-3")):
        changed = await b.store.request_throttle(array.id, limit)
        assert changed.spec.array == text
        await b.outbox.drain()
        assert b.scheduler.orders[-1] == (f"throttle {limit}", "1")
