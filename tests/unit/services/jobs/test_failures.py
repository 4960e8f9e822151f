"""Explanations of failed jobs, with remedies that the cluster permits."""

from __future__ import annotations

import pytest

from aitne.core.errors import NotFound, Unavailable
from aitne.core.jobs.error_patterns import FailureCause
from aitne.core.jobs.failure_explanation import Failure, RemedyKind
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, ResubmitOptions
from tests.unit.services.conftest import ADA, BOB, EVE, Bench, make_node


async def _failed(
    bench: Bench, state: JobState, reason: TerminationReason, **fields: object
) -> Job:
    job = await bench.running(**fields)
    message = "The program ended with exit code 1."
    return await bench.walk(job, state, reason=reason, exit_code=1, message=message)


async def _explained(bench: Bench, job: Job, actor: object = ADA) -> Failure:
    failure = await bench.failures.explain_failure(actor, job.id)  # type: ignore[arg-type]
    assert failure is not None
    return failure


async def test_out_of_memory_offers_more_that_fits_and_resubmits_with_it(bench: Bench) -> None:
    old = await _failed(
        bench,
        JobState.OUT_OF_MEMORY,
        TerminationReason.OUT_OF_MEMORY,
        resources={"memory": "20G", "cpu": 2},
    )
    failure = await _explained(bench, old)
    assert failure.cause is FailureCause.OUT_OF_MEMORY
    # A node has 32 GiB: twice as much would never run.
    (remedy,) = failure.remedies
    assert (remedy.kind, remedy.memory_bytes) == (RemedyKind.RESUBMIT, 30 << 30)
    options = ResubmitOptions(memory=remedy.memory_bytes)
    again = await bench.jobs.resubmit(ADA, old.id, idempotency_key="k", options=options)
    assert again.job.spec.resources.memory_bytes == 30 << 30
    assert again.job.spec.resources.cpu == 2
    replay = await bench.jobs.resubmit(ADA, old.id, idempotency_key="k", options=options)
    assert replay.job.id == again.job.id
    await bench.nodes(make_node().model_copy(update={"memory_total_bytes": 21 << 30}))
    assert (await _explained(bench, old)).remedies == ()


async def test_time_limit_offers_a_longer_one_within_the_limits(bench: Bench) -> None:
    job = await _failed(bench, JobState.TIMED_OUT, TerminationReason.TIMED_OUT)
    failure = await _explained(bench, job)
    assert failure.text == "It reached its time limit of 1 h."
    assert [each.max_duration_s for each in failure.remedies] == [7_200]


async def test_line_of_the_log_is_quoted(bench: Bench) -> None:
    job = await _failed(bench, JobState.FAILED, TerminationReason.FAILED)
    begin = b"epoch 1\n" * 20_000
    bench.files.write_log(job, begin + b"ModuleNotFoundError: No module named 'torch'\n")
    failure = await _explained(bench, job)
    assert failure.line is not None
    assert failure.line.text == "ModuleNotFoundError: No module named 'torch'"
    assert failure.line.offset == len(begin)
    assert [each.kind for each in failure.remedies] == [RemedyKind.PACKAGES]
    bench.files.failing = Unavailable("The file server does not answer.")
    assert (await _explained(bench, job)).text == "The program ended with exit code 1."


async def test_members_read_the_explanation_and_strangers_do_not(bench: Bench) -> None:
    job = await _failed(bench, JobState.TIMED_OUT, TerminationReason.TIMED_OUT)
    assert (await _explained(bench, job, BOB)).remedies == ()
    with pytest.raises(NotFound):
        await bench.failures.explain_failure(EVE, job.id)
    running = await bench.running()
    assert await bench.failures.explain_failure(ADA, running.id) is None
