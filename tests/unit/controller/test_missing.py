"""Runs that the scheduler forgot, turned away, or started too often."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.core.errors import Unavailable
from aitne.core.jobs.agent_protocol import EXIT_DUPLICATE, EXIT_NO_FENCE
from aitne.core.jobs.array_job_state import task_id
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import NodeState
from aitne.core.models.job import JobChanges, RetryPolicy
from aitne.core.models.usage_sample import Sample
from aitne.core.platform.metric_names import SCHEDULER_STATE_LOST
from aitne.core.ports.job_files import CLOSED, Fence, ProgramOutcome
from aitne.services.controller.missing_run_resolution import (
    MOST_ATTEMPTS,
    SILENCE_AFTER_RESTART_S,
    SILENCE_S,
)
from tests.support.fakes import Vanishes
from tests.support.files import key_of
from tests.support.jobs import make_array, make_job, make_session


async def _submitted(b: Any, job: Any, tasks: Any = ()) -> Any:
    await b.store.create_job(job, tasks)
    await b.outbox.drain()
    return job


async def test_job_lost_before_its_start_is_retried_and_cannot_start_late(
    bench: Any,
) -> None:
    b = await bench(Vanishes())
    job = await _submitted(b, make_job())
    await b.poller.poll()
    b.scheduler.vanish("1")
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    again = await b.job(job.id)
    assert (again.state, again.attempt) == (JobState.PENDING_SUBMIT, 2)
    assert b.files.fences[key_of(job)].owner == CLOSED
    await b.outbox.drain()
    assert b.scheduler.requests[1].attempt == 2


async def test_task_that_was_cancelled_in_the_scheduler_while_it_waited_stays_cancelled(
    bench: Any,
) -> None:
    b = await bench(Vanishes())
    array, tasks = make_array("0-2")
    await _submitted(b, array, tasks)
    for index in range(3):
        waits = {"state": JobState.QUEUED, "nodes": (), "started_at": None}
        b.scheduler.change(f"1_{index}", **waits)
    await b.poller.poll()
    b.scheduler.vanish("1_1")
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    task = await b.job(task_id(array.id, 1))
    assert (task.state, task.attempt) == (JobState.CANCELLED, 1)
    assert task.message == "Cancelled in the scheduler while it waited, not through the platform."
    # Without any record of the array, the scheduler has lost it.
    b.scheduler.records.clear()
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    assert [(await b.job(task_id(array.id, index))).attempt for index in (0, 1, 2)] == [2, 1, 2]


@pytest.mark.parametrize("last", [True, False])
async def test_task_cancelled_in_an_array_that_only_accounting_has_stays_cancelled(
    bench: Any, last: bool
) -> None:
    """Slurm writes the last task under the array's own ID, when no other task waits any more."""
    b = await bench(Vanishes())
    array, tasks = make_array("0-1")
    await _submitted(b, array, tasks)
    for index in range(2):
        waits = {"state": JobState.QUEUED, "nodes": (), "started_at": None}
        b.scheduler.change(f"1_{index}", **waits)
    await b.poller.poll()
    b.scheduler.vanish("1_0")
    b.scheduler.change("1_1", nodes=("n1",), is_last_task=last)
    b.scheduler.finish("1_1")
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    task = await b.job(task_id(array.id, 0))
    expected = (JobState.CANCELLED, 1) if last else (JobState.PENDING_SUBMIT, 2)
    assert (task.state, task.attempt) == expected


async def test_missing_jobs_are_looked_for_together(bench: Any) -> None:
    b = await bench(Vanishes())
    jobs = [await _submitted(b, make_job()) for _ in range(9)]
    await b.poller.poll()
    b.scheduler.records.clear()
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    assert b.scheduler.searches == 1
    assert {(await b.job(job.id)).attempt for job in jobs} == {2}


async def test_unreadable_job_folder_leaves_job_state_unchanged(bench: Any) -> None:
    b = await bench(Vanishes())
    job = await _submitted(b, make_job())
    await b.poller.poll()
    b.scheduler.vanish("1")
    b.files.failing = Unavailable("the file system is away.")
    b.clock.advance(10 * SILENCE_S)
    for _ in range(5):
        await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING


async def test_a_run_that_was_forgotten_ends_as_its_agent_wrote(bench: Any) -> None:
    b = await bench(Vanishes())
    ends = (
        (0, False, JobState.COMPLETED),
        (3, False, JobState.FAILED),
        (143, False, JobState.FAILED),
        (143, True, JobState.LOST),
        (1, True, JobState.LOST),
    )
    jobs = [await _submitted(b, make_job()) for _ in ends]
    await b.poller.poll()
    await b.begins(*jobs)
    for job, (code, interrupted, _) in zip(jobs, ends, strict=True):
        await b.ends(job, code, interrupted=interrupted)
    b.scheduler.records.clear()
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    assert [await b.state(job.id) for job in jobs] == [state for _, _, state in ends]


async def test_a_forgotten_run_on_a_dead_node_has_failed_with_it(bench: Any) -> None:
    b = await bench(Vanishes())
    job = await _submitted(b, make_job())
    await b.poller.poll()
    await b.begins(job)
    b.scheduler.node = b.scheduler.node.model_copy(update={"state": NodeState.DOWN})
    other = await _submitted(b, make_job())  # a change, so that the nodes are looked at
    await b.poller.poll()
    b.scheduler.vanish("1")
    b.clock.advance(60)
    for _ in range(4):
        await b.poller.poll()
    assert await b.state(job.id) is JobState.NODE_FAILED
    assert await b.state(other.id) is JobState.STARTING


async def test_a_scheduler_without_its_state_ends_runs_as_lost_and_is_told_once(
    bench: Any,
) -> None:
    b = await bench(Vanishes())
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.LOST}))
    jobs = [await _submitted(b, make_job()), await _submitted(b, make_session())]
    retried = await _submitted(b, make_job(spec={"retry": policy}))
    await b.poller.poll()
    await b.begins(*jobs, retried)
    for number in ("1", "2", "3"):
        b.scheduler.change(number, started_at=b.clock())
    await b.poller.poll()
    b.clock.advance(100)
    restarted = b.clock()
    b.scheduler.started_at = restarted
    b.scheduler.records.clear()
    b.scheduler.node = b.scheduler.node.model_copy(update={"state": NodeState.DOWN})

    async def polls(seconds: float) -> set[JobState]:
        for _ in range(round(seconds / 10)):
            b.clock.advance(10)
            b.poller.poller._cluster_due = 0.0  # the nodes are looked at again
            await b.poller.poll()
        return {await b.state(job.id) for job in jobs}

    running = {JobState.STARTING}
    assert await polls(2 * SILENCE_AFTER_RESTART_S) == running, "their nodes may not know yet"
    b.scheduler.node = b.scheduler.node.model_copy(update={"state": NodeState.IDLE})
    sample = Sample(node="node01", time=b.clock(), cpu=1, memory_bytes=1)
    await b.store.add_samples(jobs[1].id, [sample])
    assert await polls(30) == {JobState.LOST, JobState.STARTING}, "the agent of one still reports"
    assert await polls(SILENCE_AFTER_RESTART_S) == {JobState.LOST}
    for job in jobs:
        ended = await b.job(job.id)
        assert ended.reason is TerminationReason.LOST
        assert f"when it restarted at {restarted:%Y-%m-%d %H:%M:%S} UTC" in (ended.message or "")
    again = await b.job(retried.id)
    assert (again.state, again.attempt) == (JobState.PENDING_SUBMIT, 2)
    events = [
        each for each in await b.store.list_events_after(0) if each.kind == "scheduler.state_lost"
    ]
    assert [each.data for each in events] == [{"restarted_at": restarted.isoformat()}]
    assert b.counts.snapshot()[SCHEDULER_STATE_LOST.name] == {"": restarted.timestamp()}


async def test_a_run_that_vanishes_long_after_a_restart_was_not_lost_in_it(bench: Any) -> None:
    b = await bench(Vanishes())
    job = await _submitted(b, make_job())
    b.scheduler.change("1", started_at=b.clock())
    await b.poller.poll()
    await b.begins(job)
    b.clock.advance(100)
    b.scheduler.started_at = b.clock()
    b.clock.advance(60)
    await b.poller.poll()  # a restart that keeps the state
    b.scheduler.vanish("1")
    for _ in range(round(SILENCE_S / 10) + 4):
        b.clock.advance(10)
        b.poller.poller._cluster_due = 0.0
        await b.poller.poll()
    ended = await b.job(job.id)
    assert ended.state is JobState.LOST
    assert "its agent does not report" in (ended.message or "")
    assert not [e for e in await b.store.list_events_after(0) if e.kind == "scheduler.state_lost"]


async def test_a_run_whose_agent_reports_is_not_lost_with_the_schedulers_state(bench: Any) -> None:
    b = await bench(Vanishes())
    job = await _submitted(b, make_job())
    b.scheduler.change("1", started_at=b.clock())
    await b.poller.poll()
    await b.begins(job)
    b.clock.advance(100)
    b.scheduler.started_at = b.clock()
    b.scheduler.vanish("1")
    for _ in range(30):
        b.clock.advance(10)
        await b.store.add_samples(
            job.id, [Sample(node="node01", time=b.clock(), cpu=1, memory_bytes=1)]
        )
        b.poller.poller._cluster_due = 0.0
        await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING


async def test_a_run_whose_folder_its_node_could_not_use_is_begun_anew_some_times(
    bench: Any,
) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert (await b.job(job.id)).attempt == attempt
        number = str(attempt)
        b.scheduler.finish(number, JobState.FAILED, TerminationReason.FAILED, EXIT_NO_FENCE)
        await b.poller.poll()
        b.clock.advance(3_600)
        await b.outbox.drain()
    assert await b.state(job.id) is JobState.FAILED


async def test_a_program_may_end_with_the_agents_code_for_a_folder(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    await b.begins(job)
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, EXIT_NO_FENCE)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, ended.exit_code, ended.attempt) == (JobState.FAILED, EXIT_NO_FENCE, 1)


async def test_a_run_that_was_turned_away_is_no_outcome(bench: Any) -> None:
    """The fence is another's: that one is found, or its agent's word is taken."""
    b = await bench()
    job = await _submitted(b, make_job())
    owner = b.scheduler.records["1"].model_copy(update={"scheduler_id": "2"})
    b.files.fences[key_of(job)] = Fence(owner="2", restart_count=0)
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, EXIT_DUPLICATE)
    found = [owner]

    async def find(_: object) -> list[object]:
        return [*found]

    b.scheduler.find_records = find
    await b.poller.poll()
    adopted = await b.job(job.id)
    assert (adopted.state, adopted.scheduler_id) == (JobState.STARTING, "2")
    found.clear()
    await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING, "the owner is forgotten, and may still run"
    b.files.outcomes[key_of(job)] = ProgramOutcome(
        owner="2", restart_count=0, exit_code=0, ended_at=b.clock()
    )
    b.scheduler.change("1", pending_reason="anything new")
    await b.poller.poll()
    assert await b.state(job.id) is JobState.COMPLETED


async def test_a_preempted_run_is_preempted_whatever_its_program_made_of_the_signal(
    bench: Any,
) -> None:
    b = await bench()
    again = RetryPolicy(max=1, on=frozenset({TerminationReason.PREEMPTED}))
    job = await _submitted(b, make_job(spec={"retry": again}))
    await b.poller.poll()
    await b.begins(job)
    await b.ends(job, 1, interrupted=True)
    b.scheduler.finish("1", JobState.PREEMPTED, TerminationReason.PREEMPTED, None)
    await b.poller.poll()
    assert ((await b.job(job.id)).state, (await b.job(job.id)).attempt) == (
        JobState.PENDING_SUBMIT,
        2,
    )


async def test_more_starts_than_the_policy_allows_end_the_job(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.PREEMPTED}))
    job = await _submitted(b, make_job(spec={"retry": policy}))
    await b.poller.poll()
    b.scheduler.change("1", state=JobState.QUEUED, restart_count=1)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.QUEUED, "it has not begun, so it runs once"
    await b.begins(job)
    b.scheduler.change("1", state=JobState.RUNNING)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, b.scheduler.cancelled) == (JobState.NODE_FAILED, ["1"])
    assert "started it 2 times" in (ended.message or "")


async def test_job_without_a_policy_is_restarted_as_often_as_the_scheduler_does(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    await b.poller.poll()
    await b.begins(job)
    for count in (1, 2):
        b.scheduler.change("1", state=JobState.QUEUED, restart_count=count)
        await b.poller.poll()
        b.scheduler.change("1", state=JobState.RUNNING)
        await b.poller.poll()
    again = await b.job(job.id)
    assert (again.state, again.restart_count) == (JobState.STARTING, 2)
    assert b.scheduler.cancelled == []


async def test_a_restart_that_no_poll_saw_waiting_forgets_the_run_before(bench: Any) -> None:
    b = await bench()
    job = await _submitted(
        b,
        make_job(spec={"retry": RetryPolicy(max=1, on=frozenset({TerminationReason.NODE_FAILED}))}),
    )
    await b.poller.poll()
    await b.begins(job)
    await b.store.transition_job(job.id, JobState.RUNNING, JobChanges(address="http://n1:8888"))
    b.scheduler.change("1", state=JobState.RUNNING, restart_count=1)
    await b.poller.poll()
    again = await b.job(job.id)
    assert (again.state, again.address) == (JobState.QUEUED, None)
    await b.poller.poll()
    again = await b.job(job.id)
    assert (again.state, again.restart_count) == (JobState.STARTING, 1)


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
@pytest.mark.parametrize("spec", [{}, {"slurm": {"requeue": True}}, {"retry": {"max": 3}}])
async def test_a_run_that_ended_and_is_started_again_has_ended(
    bench: Any, spec: Any, state: JobState
) -> None:
    b = await bench()
    job = await _submitted(b, make_job(spec=spec))
    await b.poller.poll()
    await b.begins(job)
    await b.ends(job, 0)
    b.scheduler.change("1", state=state, restart_count=1)
    await b.poller.poll()
    assert (await b.state(job.id), b.scheduler.cancelled) == (JobState.COMPLETED, ["1"])


async def test_a_run_that_the_scheduler_ended_before_it_began_is_begun_anew(bench: Any) -> None:
    """As after "Duplicate jobid", when an id is given out while its former holder still runs."""
    b = await bench()
    job = await _submitted(b, make_job())
    wished = await _submitted(b, make_job())
    await b.store.request_cancel(wished.id, b.clock())
    for number in ("1", "2"):
        b.scheduler.finish(number, JobState.CANCELLED, TerminationReason.CANCELLED, None)
    await b.poller.poll()
    assert (await b.job(job.id)).attempt == 2
    assert await b.state(wished.id) is JobState.CANCELLED
    for attempt in range(2, 6):
        await b.outbox.drain()
        number = str((await b.job(job.id)).scheduler_id)
        b.scheduler.finish(number, JobState.FAILED, TerminationReason.START_FAILED, None)
        assert (await b.job(job.id)).attempt == attempt
        await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, ended.attempt) == (JobState.FAILED, 5), "it may be the job's own fault"
