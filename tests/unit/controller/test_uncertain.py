"""Submissions with an uncertain outcome that are cancelled, or repeated in vain."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.errors import SchedulerUnavailable, SubmitUncertain, SubmitUnclear
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.ports.job_files import CLOSED, Fence
from aitne.core.ports.scheduler import SubmitRequest
from aitne.services.controller.submission_outcome import RETRY_S
from aitne.services.controller.submission_search import MOST_UNCLEAR
from tests.support.fakes import AmbiguousSubmit, ControllerDown
from tests.support.files import key_of
from tests.support.jobs import make_array, make_job


async def _submitted(b: Any, job: Any, tasks: Any = ()) -> Any:
    await b.store.create_job(job, tasks)
    await b.outbox.drain()
    return job


@pytest.mark.parametrize("tasks", [None, "0-2"])
async def test_the_cancellation_of_an_uncertain_submission_waits_for_nobody(
    bench: Any, tasks: str | None
) -> None:
    """Not for the time in which the submission may appear, nor for the scheduler."""
    b = await bench(AmbiguousSubmit(arrives=False))
    job, rows = (make_job(), ()) if tasks is None else make_array(tasks)
    await _submitted(b, job, rows)
    assert await b.state(job.id) is JobState.UNCERTAIN

    async def fail(_: Any) -> Any:
        raise SchedulerUnavailable("it hangs.")

    b.scheduler.find_records = fail
    await b.store.request_cancel(job.id, b.clock())
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    assert await b.state(job.id) is JobState.CANCELLED
    fences = b.files.fences.values()
    assert [fence.owner for fence in fences] == [CLOSED] * (1 if tasks is None else 3)
    assert await b.store.get_outbox_depth() == (0, 0.0)


async def test_an_uncertain_submission_that_has_begun_is_cancelled_in_the_scheduler(
    bench: Any,
) -> None:
    b = await bench(AmbiguousSubmit(arrives=True))
    job = await _submitted(b, make_job())
    b.files.fences[key_of(job)] = Fence(owner="1", restart_count=0)
    await b.store.request_cancel(job.id, b.clock())
    for _ in range(2):
        b.clock.advance(RETRY_S + 1)
        await b.outbox.drain()
    assert (await b.job(job.id)).scheduler_id == "1"
    assert b.scheduler.cancelled == ["1"]


async def test_repeats_without_a_clear_answer_have_an_end(bench: Any) -> None:
    b = await bench()
    job = make_job()
    await b.store.create_job(job)
    submissions = []

    async def unclear(request: SubmitRequest) -> str:
        submissions.append(request.job_id)
        raise SubmitUnclear("sbatch was ended by signal 11: ''")

    b.scheduler.submit = unclear
    for _ in range(10 * MOST_UNCLEAR):
        b.clock.advance(30)
        await b.outbox.drain()
    ended = await b.job(job.id)
    assert (ended.state, ended.reason) == (JobState.FAILED, TerminationReason.REJECTED)
    assert "sbatch was ended by signal 11" in (ended.message or "")
    assert submissions == [job.id] * MOST_UNCLEAR
    assert b.files.fences[key_of(job)].owner == CLOSED, "should it turn up, it is turned away"


@pytest.mark.parametrize("outage", [False, True])
async def test_without_an_answer_a_submission_is_repeated_for_ever(
    bench: Any, outage: bool
) -> None:
    b = await bench(ControllerDown())
    b.scheduler.down = outage
    job = make_job()
    await b.store.create_job(job)

    async def unclear(_: SubmitRequest) -> str:
        raise SubmitUncertain("nobody answered.")

    b.scheduler.submit = unclear
    for _ in range(10 * MOST_UNCLEAR):
        b.clock.advance(30)
        await b.outbox.drain()
    assert not (await b.job(job.id)).state.is_terminal
