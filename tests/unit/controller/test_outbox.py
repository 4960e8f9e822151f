"""Submissions: once in effect, whatever the scheduler answers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import pytest

from aitne.core.errors import (
    SchedulerRejected,
    SchedulerUnavailable,
    StaleEpoch,
    StorageFull,
    Unavailable,
)
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges, RetryPolicy
from aitne.core.ports.job_files import CLOSED
from aitne.core.ports.scheduler import SubmitRequest
from aitne.services.controller.leader import Leader
from aitne.services.controller.submission_outcome import RETRY_S
from aitne.services.controller.submitter import BATCH
from tests.support.fakes import AmbiguousSubmit, ControllerDown, FakeScheduler, SlowStart
from tests.support.files import key_of
from tests.support.jobs import make_array, make_job, make_session


async def create_job(b: Any) -> Job:
    """Store a new job."""
    job = make_job()
    await b.store.create_job(job)
    return job


async def submit_job(b: Any) -> Job:
    """Store a new job, and carry out what the outbox has."""
    job = await create_job(b)
    await b.outbox.drain()
    return job


async def test_a_job_is_submitted_with_its_identity_and_token(bench: Any) -> None:
    b = await bench()
    job = make_job(name="$(touch /tmp/x)\n#SBATCH --nodes=9 🦊")
    await b.store.create_job(job)
    await b.outbox.drain()
    stored = await b.job(job.id)
    assert (stored.state, stored.scheduler_id) == (JobState.QUEUED, "1")
    (request,) = b.scheduler.requests
    assert (request.job_id, request.attempt, request.name) == (job.id, 1, job.name)
    token = request.files["token"].decode()
    assert token not in request.script
    assert job.name not in request.script
    assert await b.store.get_outbox_depth() == (0, 0.0)


async def test_a_scheduler_that_is_down_delays_and_loses_nothing(bench: Any) -> None:
    b = await bench(ControllerDown())
    job = await submit_job(b)
    waiting = await b.job(job.id)
    assert waiting.state is JobState.PENDING_SUBMIT
    assert "scheduler" in (waiting.message or "")
    b.scheduler.down = False
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.QUEUED
    assert len(b.scheduler.requests) == 1


async def test_an_ambiguous_submission_that_arrived_is_adopted(bench: Any) -> None:
    b = await bench(AmbiguousSubmit(arrives=True))
    job = await submit_job(b)
    assert await b.state(job.id) is JobState.UNCERTAIN
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    assert (await b.job(job.id)).scheduler_id == "1"
    assert len(b.scheduler.requests) == 1


async def test_an_ambiguous_submission_that_never_arrived_is_repeated_only_later(
    bench: Any,
) -> None:
    b = await bench(AmbiguousSubmit(arrives=False))
    job = await submit_job(b)
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.UNCERTAIN, "it may still arrive"
    assert b.scheduler.requests == []
    b.clock.advance(15)
    await b.outbox.drain()
    b.clock.advance(1)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.QUEUED
    assert len(b.scheduler.requests) == 1


async def test_jobs_are_submitted_during_search_for_uncertain_submission(bench: Any) -> None:
    b = await bench(AmbiguousSubmit(arrives=False))
    uncertain, other = make_job(), make_job()
    await b.store.create_job(uncertain)
    await b.outbox.drain()
    await b.store.create_job(other)
    put_back = b.store.return_outbox_items

    async def at_once_due(*items: int, **how: Any) -> None:
        await put_back(*items, **how)
        b.clock.advance(RETRY_S + 1)

    b.store.return_outbox_items = at_once_due
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    assert [each.job_id for each in b.scheduler.requests] == [other.id, uncertain.id]


async def test_a_submission_that_is_cancelled_while_nobody_knows_of_it_never_begins(
    bench: Any,
) -> None:
    b = await bench(AmbiguousSubmit(arrives=False))
    job = await submit_job(b)
    await b.store.request_cancel(job.id, b.clock())
    for _ in range(3):
        b.clock.advance(16)
        await b.outbox.drain()
    assert await b.state(job.id) is JobState.CANCELLED
    assert b.files.fences[key_of(job)].owner == CLOSED, "should it turn up, it is turned away"


async def test_of_files_that_cannot_be_written_the_scheduler_is_not_to_blame(bench: Any) -> None:
    b = await bench()
    job = await create_job(b)
    full = "The job's folder /home/ada/jobs/1 cannot be written: No space left on device."

    async def fail(request: SubmitRequest) -> str:
        raise Unavailable(full)

    b.scheduler.submit = fail
    await b.outbox.drain()
    waits = await b.job(job.id)
    assert (waits.state, waits.message) == (JobState.PENDING_SUBMIT, full)


async def test_a_session_whose_folder_is_full_has_its_files_elsewhere(bench: Any) -> None:
    """So its user can delete files; a batch job waits for space."""
    b = await bench(slurm={"spare_jobs_dir": "/spare/{user}/jobs"})
    full = "The job's folder cannot be written: no space is left."
    submit = b.scheduler.submit

    async def fail(request: SubmitRequest) -> str:
        if not request.job_dir.startswith("/spare/"):
            raise StorageFull(full)
        scheduler_id: str = await submit(request)
        return scheduler_id

    b.scheduler.submit = fail
    home = {"account": "ada", "folder": "/home/ada/jobs/1"}
    session, job = make_session(**home), make_job(**home)
    for each in (session, job):
        await b.store.create_job(each)
    await b.outbox.drain()
    waits = await b.job(job.id)
    assert (waits.state, waits.message) == (JobState.PENDING_SUBMIT, full)
    assert waits.folder == "/home/ada/jobs/1"
    runs = await b.job(session.id)
    assert runs.state is JobState.QUEUED
    assert runs.folder == f"/spare/ada/jobs/{session.id}"
    assert [request.job_dir for request in b.scheduler.requests] == [f"{runs.folder}/1"]


async def test_a_crash_after_the_scheduler_took_the_job_is_resolved_by_search(bench: Any) -> None:
    b = await bench()
    job = await create_job(b)
    original = b.scheduler.submit

    async def crash(request: SubmitRequest) -> str:
        await original(request)
        raise RuntimeError("the power fails here")

    b.scheduler.submit = crash
    with pytest.raises(ExceptionGroup):
        await b.outbox.drain()
    b.scheduler.submit = original
    assert await b.state(job.id) is JobState.SUBMITTING
    b.clock.advance(60)
    await b.outbox.drain()
    assert (await b.job(job.id)).scheduler_id == "1"
    assert len(b.scheduler.requests) == 1


async def test_an_agent_that_speaks_before_the_scheduler_answered_is_not_set_back(
    bench: Any,
) -> None:
    b = await bench()
    job = await create_job(b)
    original = b.scheduler.submit

    async def quick_agent(request: SubmitRequest) -> str:
        scheduler_id = await original(request)
        await b.agent_reports(job.id)
        return scheduler_id

    b.scheduler.submit = quick_agent
    await b.outbox.drain()
    stored = await b.job(job.id)
    assert (stored.state, stored.scheduler_id) == (JobState.RUNNING, "1")


async def test_an_agent_that_speaks_during_an_uncertain_submission_leaves_the_search_due(
    bench: Any,
) -> None:
    b = await bench(AmbiguousSubmit(arrives=True))
    job = await submit_job(b)
    await b.agent_reports(job.id)
    await b.store.request_cancel(job.id, b.clock())
    for _ in range(2):
        b.clock.advance(RETRY_S + 1)
        await b.outbox.drain()
    assert (await b.job(job.id)).scheduler_id == "1"
    assert b.scheduler.cancelled == ["1"]


async def test_a_job_that_is_cancelled_just_before_its_submission_is_not_submitted(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    b = await bench()
    job = await create_job(b)
    read = b.store.find_jobs

    async def cancelled_after_the_read(job_ids: Collection[UUID]) -> Sequence[Job]:
        found: Sequence[Job] = await read(job_ids)
        b.store.find_jobs = read
        await b.store.request_cancel(job.id, b.clock())
        return found

    b.store.find_jobs = cancelled_after_the_read
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.CANCELLED
    assert b.scheduler.requests == []
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_the_id_of_a_run_that_is_over_is_not_noted_for_the_next(bench: Any) -> None:
    b = await bench()
    job = await create_job(b)
    original = b.scheduler.submit

    async def ends_at_once(request: SubmitRequest) -> str:
        if request.attempt == 2:
            raise SchedulerUnavailable("It rests.")
        scheduler_id: str = await original(request)
        await b.agent_reports(job.id)
        why = JobChanges(reason=TerminationReason.NODE_FAILED)
        await b.store.retry_job(job.id, JobState.NODE_FAILED, why, epoch=b.leader.epoch)
        return scheduler_id

    b.scheduler.submit = ends_at_once
    await b.outbox.drain()
    again = await b.job(job.id)
    assert (again.attempt, again.scheduler_id) == (2, None)


async def test_a_refusal_ends_the_job_with_the_reason(bench: Any) -> None:
    class Refuses(FakeScheduler):
        async def submit(self, request: SubmitRequest) -> str:
            raise SchedulerRejected("partition gpu does not exist.")

    b = await bench(Refuses())
    job = await submit_job(b)
    ended = await b.job(job.id)
    assert (ended.state, ended.reason) == (JobState.FAILED, TerminationReason.REJECTED)
    assert ended.message == "partition gpu does not exist."


async def test_an_array_is_one_submission_and_each_task_a_row(bench: Any) -> None:
    b = await bench(SlowStart())
    array, tasks = make_array("0-2")
    await b.store.create_job(array, tasks)
    await b.outbox.drain()
    assert len(b.scheduler.requests) == 1
    rows = await b.store.list_array_tasks(array.id)
    assert [row.scheduler_id for row in rows] == ["1_0", "1_1", "1_2"]
    assert {row.state for row in rows} == {JobState.QUEUED}
    assert (await b.job(array.id)).scheduler_id == "1"


async def test_a_dependency_is_handed_on_and_a_failed_one_cancels(bench: Any) -> None:
    b = await bench()
    first = make_job()
    second = make_job(spec={"after": (first.id,)})
    await b.store.create_job(first)
    await b.store.create_job(second)
    await b.outbox.drain()
    assert b.scheduler.requests[1].after == ("1",)

    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 1)
    await b.poller.poll()
    third = make_job(spec={"after": (first.id,)})
    await b.store.create_job(third)
    await b.outbox.drain()
    ended = await b.job(third.id)
    assert (ended.state, ended.reason) == (
        JobState.CANCELLED,
        TerminationReason.DEPENDENCY_FAILED,
    )
    assert str(first.id) in (ended.message or "")


async def test_an_older_extension_takes_nothing_from_a_newer_one(bench: Any) -> None:
    b = await bench()
    job = make_session()
    await b.store.create_job(job)
    await b.outbox.drain()
    await b.poller.poll()
    for limit, asked in ((7_200, None), (9_000, 7_200)):
        await b.store.request_extend(job.id, limit, latest_requested_s=asked)
    items = await b.store.lease_outbox_items(epoch=b.leader.epoch, limit=9, lease_s=60)
    for item in reversed(items):
        await b.store.return_outbox_items(item.id, epoch=b.leader.epoch, delay_s=0)
        await b.outbox.drain()
    assert b.scheduler.records["1"].time_limit_s == 9_000
    now = await b.job(job.id)
    assert (now.expires_at - now.allocated_at).total_seconds() == 9_000


async def test_cancel_reaches_the_scheduler(bench: Any) -> None:
    b = await bench()
    job = await submit_job(b)
    await b.store.request_cancel(job.id, b.clock())
    await b.outbox.drain()
    assert b.scheduler.cancelled == ["1"]
    await b.poller.poll()
    assert await b.state(job.id) is JobState.CANCELLED


async def test_an_array_is_cancelled_by_one_order(bench: Any) -> None:
    b = await bench(SlowStart())
    array, tasks = make_array("0-9")
    await b.store.create_job(array, tasks)
    await b.outbox.drain()
    await b.store.request_cancel(array.id, b.clock(), "Cancelled by ada.")
    await b.outbox.drain()
    assert b.scheduler.cancelled == ["1"]
    await b.poller.poll()
    rows = await b.store.list_array_tasks(array.id)
    assert {(row.state, row.message) for row in rows} == {(JobState.CANCELLED, "Cancelled by ada.")}


async def test_an_array_that_is_cancelled_during_its_submission_ends_by_its_id(bench: Any) -> None:
    b = await bench(SlowStart())
    array, tasks = make_array("0-2")
    await b.store.create_job(array, tasks)
    original = b.scheduler.submit

    async def cancelled_meanwhile(request: SubmitRequest) -> str:
        await b.store.request_cancel(array.id, b.clock())
        scheduler_id: str = await original(request)
        return scheduler_id

    b.scheduler.submit = cancelled_meanwhile
    await b.outbox.drain()
    assert b.scheduler.cancelled == ["1"]
    await b.poller.poll()
    assert await b.state(array.id) is JobState.CANCELLED


async def test_a_controller_that_lost_the_lead_changes_nothing(bench: Any) -> None:
    b = await bench()
    job = await create_job(b)
    b.clock.advance(60)
    other = Leader(b.store, "other")
    await other.acquire()
    with pytest.raises((StaleEpoch, ExceptionGroup)):
        await b.outbox.drain()
    assert await b.state(job.id) is JobState.PENDING_SUBMIT
    assert b.scheduler.requests == []


async def test_the_next_leader_takes_up_what_the_dead_one_had_begun(bench: Any) -> None:
    b = await bench()
    job = await create_job(b)
    taken = await b.store.lease_outbox_items(epoch=b.leader.epoch, limit=9, lease_s=1_000)
    assert len(taken) == 1
    await b.leader.end_lease("test")
    await b.leader.acquire()
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.QUEUED


async def test_retried_task_has_its_own_token(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.NODE_FAILED}))
    array, tasks = make_array("0-1", spec={"retry": policy})
    await b.store.create_job(array, tasks)
    await b.outbox.drain()
    b.scheduler.finish("1_0")
    await b.begins(tasks[1])
    b.scheduler.finish("1_1", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, None)
    await b.poller.poll()
    await b.outbox.drain()
    again = b.scheduler.requests[1]
    assert (again.job_id, again.attempt, again.array) == (array.id, 2, "1")
    owner = await b.store.find_job_by_token(hashlib.sha256(again.files["token"]).hexdigest())
    assert owner is not None
    assert (owner.array_task_id, owner.attempt) == (1, 2)


async def test_a_dependency_that_may_be_retried_is_waited_for_here(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.FAILED}))
    first = make_job(spec={"retry": policy})
    second = make_job(spec={"after": (first.id,)})
    await b.store.create_job(first)
    await b.store.create_job(second)
    await b.outbox.drain()
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 1)
    await b.poller.poll()
    await b.outbox.drain()
    waits = await b.job(second.id)
    assert waits.state is JobState.PENDING_SUBMIT
    assert waits.message == f"Waits for job {first.id} to complete."
    b.scheduler.finish("2")
    await b.poller.poll()
    await b.outbox.drain()
    assert await b.state(second.id) is JobState.QUEUED
    assert (await b.job(second.id)).message is None
    assert b.scheduler.requests[-1].after == ()


async def test_jobs_that_wait_for_a_retry_delay_no_other_owner(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.FAILED}))
    parent = make_job(owner="bob", spec={"retry": policy})
    children = [make_job(owner="bob", spec={"after": (parent.id,)}) for _ in range(3 * BATCH)]
    for job in (parent, *children):
        await b.store.create_job(job)
    await b.outbox.drain()
    b.clock.advance(3_600)
    other = make_job(owner="alice")
    await b.store.create_job(other)
    items = await b.store.lease_outbox_items(epoch=b.leader.epoch, limit=9, lease_s=0)
    assert [item.job_id for item in items] == [other.id]

    b.scheduler.finish("1")
    await b.poller.poll()
    await b.outbox.drain()
    assert b.scheduler.requests[1].job_id in {other.id, children[0].id}
    assert other.id in {request.job_id for request in b.scheduler.requests[1:3]}
    assert {await b.state(job.id) for job in children} == {JobState.QUEUED}
    assert [request.after for request in b.scheduler.requests[1:]] == [()] * (1 + len(children))


async def test_the_scheduler_may_spend_the_retries_of_a_failing_node(bench: Any) -> None:
    b = await bench()
    on = frozenset({TerminationReason.NODE_FAILED, TerminationReason.FAILED})
    job = make_job(spec={"retry": RetryPolicy(max=2, on=on)})
    await b.store.create_job(job)
    await b.outbox.drain()
    assert b.scheduler.requests[0].max_requeues == 2
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 1)
    await b.poller.poll()
    await b.outbox.drain()
    assert b.scheduler.requests[1].max_requeues == 1
    b.scheduler.change("2", restart_count=1)
    await b.begins(job)
    b.scheduler.finish("2", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, None)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.NODE_FAILED, (
        "three runs were had, one by the scheduler"
    )
