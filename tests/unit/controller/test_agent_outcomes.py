"""Tests of jobs whose agent recorded the outcome of the program."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.jobs.agent_protocol import (
    EXIT_DUPLICATE,
    EXIT_ENVIRONMENT,
    EXIT_LOG_FULL,
    EXIT_NEVER_ANSWERED,
    EXIT_NOT_READY,
    EXIT_OUT_OF_MEMORY,
    EXIT_PREEMPTED,
)
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.image import ImageUse
from aitne.core.models.job import RetryPolicy
from tests.support.jobs import make_job, make_session


async def _submitted(b: Any, job: Any, tasks: Any = ()) -> Any:
    await b.store.create_job(job, tasks)
    await b.outbox.drain()
    return job


async def test_agent_exit_code_is_explained_in_job_message(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_session())
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, EXIT_NEVER_ANSWERED)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert ended.reason is TerminationReason.START_FAILED
    assert "did not answer in time" in (ended.message or "")


async def test_a_program_may_end_with_the_agents_exit_codes(bench: Any) -> None:
    b = await bench()
    for number, code in enumerate((EXIT_DUPLICATE, EXIT_NEVER_ANSWERED), 1):
        job = await _submitted(b, make_job())
        b.scheduler.finish(str(number), JobState.FAILED, TerminationReason.FAILED, code)
        await b.poller.poll()
        ended = await b.job(job.id)
        assert ended.reason is TerminationReason.FAILED
        assert ended.message == f"The program ended with exit code {code}."


async def _ended(b: Any, job: Any, code: int, **said: Any) -> Any:
    """End the run with ``code`` and the agent's record ``said``; return the job."""
    await b.begins(job)
    await b.ends(job, code, **said)
    scheduler_id = (await b.job(job.id)).scheduler_id
    b.scheduler.finish(scheduler_id, JobState.FAILED, TerminationReason.FAILED, code)
    await b.poller.poll()
    return await b.job(job.id)


async def test_the_agents_sentence_is_the_jobs_message(bench: Any) -> None:
    b = await bench()
    told = {"reason": "start_failed", "message": "the image box:1.0 is missing on node n1: why"}
    for code, shown in ((EXIT_NOT_READY, None), (EXIT_ENVIRONMENT, None), (127, 127)):
        ended = await _ended(b, await _submitted(b, make_job()), code, **told)
        assert (ended.state, ended.exit_code) == (JobState.FAILED, shown)
        assert ended.reason is TerminationReason.START_FAILED
        assert ended.message == "The image box:1.0 is missing on node n1: why."


async def test_a_log_that_does_not_fit_is_the_jobs_message(bench: Any) -> None:
    b = await bench()
    told = {
        "reason": "failed",
        "message": "the program ended with exit code 120, and its log is cut",
    }
    ended = await _ended(b, await _submitted(b, make_job()), EXIT_LOG_FULL, **told)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, None)
    assert ended.reason is TerminationReason.FAILED
    assert ended.message == "The program ended with exit code 120, and its log is cut."


async def test_container_termination_is_explained_in_job_message(bench: Any) -> None:
    b = await bench()
    image = ImageUse(reference="box:1.0", digest="sha256:" + "0" * 64)
    box = {"image_use": image, "runtime": "docker"}
    told = {"reason": "out_of_memory", "message": "the container was ended at its memory limit"}
    ended = await _ended(b, await _submitted(b, make_job(spec=box)), 137, **told)
    assert (ended.state, ended.exit_code) == (JobState.OUT_OF_MEMORY, 137)
    assert ended.message == "The container was ended at its memory limit."
    lost = {"reason": "failed", "message": "Docker's daemon went away while the program ran"}
    ended = await _ended(b, await _submitted(b, make_job(spec=box)), 125, **lost)
    assert (ended.state, ended.message) == (JobState.FAILED, f"{lost['message']}.")
    bare = await _ended(b, await _submitted(b, make_job()), 137, **told)
    assert bare.message == "The program ended with exit code 137."


async def test_a_run_that_its_agents_cgroup_ended_was_out_of_memory(bench: Any) -> None:
    b = await bench()
    told = {"reason": "out_of_memory", "message": "it used\nmore than 50 MiB"}
    ended = await _ended(b, await _submitted(b, make_job()), EXIT_OUT_OF_MEMORY, **told)
    assert (ended.state, ended.reason) == (
        JobState.OUT_OF_MEMORY,
        TerminationReason.OUT_OF_MEMORY,
    )
    assert (ended.message, ended.exit_code) == ("It used more than 50 MiB.", None)


async def test_out_of_memory_in_the_agents_words_is_retried_like_any(bench: Any) -> None:
    b = await bench()
    retry = RetryPolicy(max=1, on=frozenset({TerminationReason.OUT_OF_MEMORY}))
    job = await _submitted(b, make_job(spec={"retry": retry}))
    told = {"reason": "out_of_memory", "message": "it used more"}
    assert (await _ended(b, job, EXIT_OUT_OF_MEMORY, **told)).attempt == 2


async def test_a_program_that_saved_its_work_when_it_was_told_to_end_goes_on(bench: Any) -> None:
    b = await bench()
    told = {"reason": "preempted", "message": "it was told to end"}
    retry = RetryPolicy(max=1, on=frozenset({TerminationReason.PREEMPTED}))
    job = await _submitted(b, make_job(spec={"retry": retry}))
    assert (await _ended(b, job, EXIT_PREEMPTED, **told)).attempt == 2
    once = await _ended(b, await _submitted(b, make_job()), EXIT_PREEMPTED, **told)
    assert (once.state, once.message) == (JobState.PREEMPTED, "It was told to end.")
    untold = await _ended(b, await _submitted(b, make_job()), EXIT_PREEMPTED)
    assert (untold.state, untold.reason) == (JobState.FAILED, TerminationReason.FAILED)


async def test_the_rank_that_failed_is_named(bench: Any) -> None:
    b = await bench()
    ranks = make_job(spec={"distributed": {"ranks_per_node": 2}})
    told = {"reason": "failed", "message": "rank 3 on node n2 was ended by signal 9"}
    ended = await _ended(b, await _submitted(b, ranks), 137, **told)
    assert (ended.state, ended.message) == (JobState.FAILED, f"R{told['message'][1:]}.")


@pytest.mark.parametrize("reason", [None, "completed", "preempted"])
async def test_a_user_who_writes_the_agents_file_gains_nothing(
    bench: Any, reason: str | None
) -> None:
    b = await bench()
    told = {"reason": reason, "message": "all went well"}
    ended = await _ended(b, await _submitted(b, make_job()), EXIT_NOT_READY, **told)
    assert (ended.state, ended.reason) == (JobState.FAILED, TerminationReason.FAILED)
    assert ended.message == f"The program ended with exit code {EXIT_NOT_READY}."
