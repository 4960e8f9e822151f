"""One poll for all jobs, and the conclusions from its answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from aitne.agent import main
from aitne.core.errors import SchedulerRejected, SchedulerUnavailable
from aitne.core.jobs.agent_protocol import (
    EXIT_DUPLICATE,
    EXIT_NEVER_ANSWERED,
)
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import NodeState
from aitne.core.models.job import JobChanges, RetryPolicy
from aitne.core.ports.job_files import Fence
from aitne.services.controller.missing_run_resolution import SILENCE_S
from aitne.services.controller.submission_outcome import RETRY_S
from tests.support.fakes import ControllerDown, NeverStarts, SlowStart, Vanishes
from tests.support.files import key_of
from tests.support.jobs import make_array, make_job, make_session


async def _submitted(b: Any, job: Any, tasks: Any = ()) -> Any:
    await b.store.create_job(job, tasks)
    await b.outbox.drain()
    return job


async def test_scheduler_is_polled_once_for_all_jobs(bench: Any) -> None:
    b = await bench()
    for _ in range(20):
        await _submitted(b, make_job())
    await b.poller.poll()
    assert b.scheduler.polls == 1
    assert len(await b.store.list_nodes()) == 1


async def test_waiting_has_a_reason_and_starting_clears_it(bench: Any) -> None:
    b = await bench(SlowStart())
    job = await _submitted(b, make_job())
    await b.poller.poll()
    assert (await b.job(job.id)).message == "Waits because the test says so."
    b.scheduler.let_go()
    await b.poller.poll()
    started = await b.job(job.id)
    assert (started.state, started.message) == (JobState.STARTING, None)
    assert started.nodes == ("node01",)
    assert started.expires_at is not None


async def test_a_poll_that_changes_nothing_writes_nothing(bench: Any) -> None:
    b = await bench(NeverStarts())
    await _submitted(b, make_job())
    await b.poller.poll()
    before = await b.store.get_last_event_id()
    await b.poller.poll()
    assert await b.store.get_last_event_id() == before


async def test_the_agent_says_when_it_runs_and_the_scheduler_how_it_ended(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    await b.poller.poll()
    await b.agent_reports(job.id)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.RUNNING
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, 3)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 3)
    assert "exit code 3" in (ended.message or "")


async def test_the_start_of_an_ended_run_is_the_schedulers(bench: Any) -> None:
    b = await bench()
    job, other = await _submitted(b, make_job()), await _submitted(b, make_job())
    start = b.clock() + timedelta(seconds=1)
    for number in ("1", "2"):
        b.scheduler.change(number, started_at=start)
    late = JobChanges(allocated_at=start + timedelta(seconds=90), started_at=None)
    await b.store.transition_job(other.id, JobState.STARTING, late)
    b.clock.advance(100)
    for number in ("1", "2"):
        b.scheduler.finish(number)
    await b.poller.poll()
    for each in (job, other):
        ended = await b.job(each.id)
        assert (ended.state, ended.allocated_at) == (JobState.COMPLETED, start)
        assert ended.started_at == start


@pytest.mark.parametrize("by", ["Cancelled in Slurm by alice.", None])
async def test_cancellation_past_the_platform_says_so(bench: Any, by: str | None) -> None:
    b = await bench()
    jobs = [await _submitted(b, make_job()) for _ in range(2)]
    await b.poller.poll()
    await b.begins(*jobs)
    find = b.scheduler.find_records

    async def accounting(runs: Any) -> Any:
        return [row.model_copy(update={"pending_reason": by}) for row in await find(runs)]

    b.scheduler.find_records = accounting
    for number in ("1", "2"):
        b.scheduler.finish(number, JobState.CANCELLED, TerminationReason.CANCELLED, None)
    await b.poller.poll()
    assert b.scheduler.searches == 1
    for job in jobs:
        ended = await b.job(job.id)
        assert ended.state is JobState.CANCELLED
        assert ended.message == (by or "Cancelled in the scheduler, not through the platform.")


async def test_cancellation_by_the_platform_needs_no_search(bench: Any) -> None:
    b = await bench()
    array, tasks = make_array("0-9")
    await b.store.create_job(array, tasks)
    await b.outbox.drain()
    await b.poller.poll()
    await b.store.request_cancel(array.id, b.clock(), "Cancelled by ada.")
    await b.outbox.drain()
    await b.poller.poller.poll()  # before it has heard of the request
    await b.poller.poll()
    assert b.scheduler.searches == 0
    rows = await b.store.list_array_tasks(array.id)
    assert {(row.state, row.message) for row in rows} == {(JobState.CANCELLED, "Cancelled by ada.")}


async def test_failed_node_is_named_with_its_reason_and_no_exit_code(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    await b.poller.poll()
    await b.begins(job)
    reason = "Not responding [slurm@2026-01-02T03:04:05]"
    b.scheduler.node = b.scheduler.node.model_copy(
        update={"state": NodeState.DOWN, "reason": reason}
    )
    b.scheduler.finish("1", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, 0)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, ended.exit_code) == (JobState.NODE_FAILED, None)
    assert ended.message == (
        "Node node01 (Not responding) failed while it ran; the job is not the cause."
    )


async def test_a_silent_agent_does_not_hold_a_batch_job_back(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    b.scheduler.change("1", started_at=b.clock())
    await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING
    b.clock.advance(20)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.RUNNING


async def test_a_session_nobody_hears_of_fails_instead_of_spinning(bench: Any) -> None:
    b = await bench()
    job = await _submitted(b, make_session())
    b.scheduler.change("1", started_at=b.clock())
    await b.poller.poll()
    b.clock.advance(200)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, ended.reason) == (JobState.FAILED, TerminationReason.START_FAILED)
    assert b.scheduler.cancelled == ["1"]


async def test_a_scheduler_that_is_silent_never_means_finished(bench: Any) -> None:
    b = await bench(ControllerDown())
    b.scheduler.down = False
    job = await _submitted(b, make_job())
    await b.poller.poll()
    b.scheduler.down = True
    for _ in range(10):
        b.clock.advance(60)
        assert await b.poller.poll() is False
    assert await b.state(job.id) is JobState.STARTING


async def test_absence_proves_nothing_until_a_search_confirms_it(bench: Any) -> None:
    b = await bench(Vanishes())
    job = await _submitted(b, make_job())
    record = b.scheduler.records.pop("1")
    for _ in range(5):
        await b.poller.poll()
    assert await b.state(job.id) is JobState.QUEUED, "it is younger than ten seconds"
    b.clock.advance(11)

    async def still_known(*_: object) -> list[object]:
        return [record]

    find, b.scheduler.find_records = b.scheduler.find_records, still_known
    for _ in range(5):
        await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING, "a search found it"
    b.scheduler.find_records = find
    b.files.fences[key_of(job)] = Fence(owner="1", restart_count=0)
    b.clock.advance(11)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING, "it had begun, and may still run"
    b.clock.advance(SILENCE_S + 11)
    await b.poller.poll()
    ended = await b.job(job.id)
    assert (ended.state, ended.reason) == (JobState.LOST, TerminationReason.LOST)


async def test_retry_makes_a_new_attempt_and_stops_at_its_limit(bench: Any) -> None:
    b = await bench()
    policy = RetryPolicy(max=1, on=frozenset({TerminationReason.NODE_FAILED}))
    job = await _submitted(b, make_job(spec={"retry": policy}))
    await b.begins(job)
    b.scheduler.finish("1", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, None)
    await b.poller.poll()
    again = await b.job(job.id)
    assert (again.state, again.attempt, again.scheduler_id) == (JobState.PENDING_SUBMIT, 2, None)
    await b.outbox.drain()
    assert b.scheduler.requests[1].attempt == 2
    await b.begins(job)
    b.scheduler.finish("2", JobState.NODE_FAILED, TerminationReason.NODE_FAILED, None)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.NODE_FAILED


async def test_a_requeue_goes_back_to_waiting(bench: Any) -> None:
    b = await bench()
    on = frozenset({TerminationReason.NODE_FAILED})
    job = await _submitted(b, make_job(spec={"retry": RetryPolicy(max=1, on=on)}))
    await b.poller.poll()
    await b.agent_reports(job.id)
    b.scheduler.change("1", state=JobState.QUEUED, restart_count=1, nodes=(), started_at=None)
    await b.poller.poll()
    waiting = await b.job(job.id)
    assert (waiting.state, waiting.restart_count) == (JobState.QUEUED, 1)
    assert waiting.started_at is None
    assert waiting.expires_at is None


async def test_session_outlives_all_of_its_nodes_but_the_first(bench: Any) -> None:
    b = await bench()
    session = await _submitted(b, make_session(spec={"resources": {"nodes": 3}}))
    nodes = ("node01", "node02", "node03")
    b.scheduler.change("1", state=JobState.RUNNING, nodes=nodes)
    await b.poller.poll()
    await b.agent_reports(session.id)
    b.scheduler.change("1", nodes=("node01", "node03"))
    await b.poller.poll()
    now = await b.job(session.id)
    assert (now.state, now.nodes) == (JobState.RUNNING, nodes)
    b.scheduler.change("1", nodes=("node03",))
    await b.poller.poll()
    ended = await b.job(session.id)
    assert (ended.state, ended.reason) == (JobState.NODE_FAILED, TerminationReason.NODE_FAILED)
    assert ended.message == "Node node01 failed while it ran; the job is not the cause."
    assert b.scheduler.cancelled == ["1"]


async def test_array_tasks_end_each_by_itself(bench: Any) -> None:
    b = await bench()
    array, tasks = make_array("0-1")
    await _submitted(b, array, tasks)
    b.scheduler.finish("1_0")
    await b.poller.poll()
    assert not (await b.job(array.id)).state.is_terminal
    b.scheduler.finish("1_1", JobState.FAILED, TerminationReason.FAILED, 1)
    await b.poller.poll()
    rows = await b.store.list_array_tasks(array.id)
    assert [row.state for row in rows] == [JobState.COMPLETED, JobState.FAILED]
    assert (await b.job(array.id)).state is JobState.FAILED


async def test_of_two_runs_of_one_attempt_the_fenced_off_one_is_not_the_outcome(
    bench: Any,
) -> None:
    b = await bench()
    job = await _submitted(b, make_job())
    b.scheduler.records["2"] = b.scheduler.records["1"].model_copy(update={"scheduler_id": "2"})
    b.scheduler.finish("1", JobState.FAILED, TerminationReason.FAILED, EXIT_DUPLICATE)
    await b.poller.poll()
    assert await b.state(job.id) is JobState.STARTING


async def test_an_answer_that_is_older_than_the_agents_word_changes_nothing(bench: Any) -> None:
    b = await bench(SlowStart())
    job = await _submitted(b, make_job())
    ask = b.scheduler.poll

    async def answers_slowly() -> Any:
        answer = await ask()
        await b.agent_reports(job.id)
        return answer

    b.scheduler.poll = answers_slowly
    await b.poller.poll()
    assert await b.state(job.id) is JobState.RUNNING


async def test_end_refused_by_a_newer_row_is_polled_again_at_once(bench: Any) -> None:
    b = await bench(SlowStart())
    job = await _submitted(b, make_job())
    await b.poller.poll()
    await b.agent_reports(job.id)
    b.scheduler.change("1", state=JobState.COMPLETED, ended_at=b.clock(), exit_code=0)
    ask = b.scheduler.poll

    async def answers_slowly() -> Any:
        answer = await ask()
        await b.store.transition_job(job.id, JobState.COMPLETING, JobChanges())
        return answer

    b.scheduler.poll = answers_slowly
    await b.poller.poll()
    assert await b.state(job.id) is JobState.COMPLETING
    assert b.poller.poller.behind
    b.scheduler.poll = ask
    await b.poller.poll()
    assert await b.state(job.id) is JobState.COMPLETED
    assert not b.poller.poller.behind


async def test_scheduler_record_of_other_account_is_ignored(bench: Any) -> None:
    b = await bench(SlowStart())
    job = await _submitted(b, make_job(account="alice"))
    b.scheduler.change("1", account="alice")
    forged = b.scheduler.records["1"].model_copy(
        update={"scheduler_id": "9", "account": "bob", "state": JobState.COMPLETED}
    )
    b.scheduler.records = {"9": forged, **b.scheduler.records}
    for _ in range(3):
        await b.poller.poll()
    assert await b.state(job.id) is JobState.QUEUED


async def test_a_poll_of_what_did_not_change_asks_nothing_of_the_database(bench: Any) -> None:
    b = await bench(NeverStarts())
    for _ in range(5):
        await _submitted(b, make_job())
    for _ in range(3):
        await b.poller.poll()
    queries: list[str] = []
    engine = b.store._db._engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *said: queries.append(said[2]))
    await b.poller.poller.poll()
    assert queries == []


async def test_scheduler_silence_is_stored(bench: Any) -> None:
    b = await bench(ControllerDown())
    b.scheduler.down = False
    await b.poller.poll()
    answered = b.clock.now
    b.clock.advance(60)
    b.scheduler.down = True
    for _ in range(3):
        await b.poller.poll()
    status = await b.store.find_scheduler_status()
    assert (status.responding, status.since) == (False, answered)
    b.scheduler.down = False
    await b.poller.poll()
    assert (await b.store.find_scheduler_status()).responding is True
    kinds = [each.kind for each in await b.store.list_events_after(0)]
    assert kinds.count("scheduler.changed") == 3


async def test_a_scheduler_that_accepts_no_jobs_is_told_until_it_does(bench: Any) -> None:
    b = await bench()
    accept, full = b.scheduler.submit, "Slurm accepts no jobs at the moment: I/O error."

    async def refuse(_: Any) -> str:
        raise SchedulerUnavailable(full)

    b.scheduler.submit = refuse
    job = await _submitted(b, make_job())
    for _ in range(2):
        await b.poller.poll()
    waits, status = await b.job(job.id), await b.store.find_scheduler_status()
    assert (waits.state, status.responding) == (JobState.PENDING_SUBMIT, True)
    assert full in (waits.message or "")
    assert status.message == full
    b.scheduler.submit = accept
    b.clock.advance(RETRY_S + 1)
    await b.outbox.drain()
    await b.poller.poll()
    assert (await b.store.find_scheduler_status()).message is None
    kinds = [each.kind for each in await b.store.list_events_after(0)]
    assert kinds.count("scheduler.changed") == 2


async def test_small_moves_of_priority_are_not_written(bench: Any) -> None:
    b = await bench(SlowStart())
    job = await _submitted(b, make_job())
    b.scheduler.change("1", priority=1_000, partition="gpu", raw={"Reason": "Priority"})
    await b.poller.poll()
    first = await b.job(job.id)
    assert (first.priority, first.partition) == (1_000, "gpu")
    assert first.scheduler_record == {"Reason": "Priority"}
    b.scheduler.change("1", priority=1_050)
    await b.poller.poll()
    assert (await b.job(job.id)).version == first.version
    b.scheduler.change("1", priority=1_200)
    await b.poller.poll()
    assert (await b.job(job.id)).priority == 1_200


def test_the_agent_and_the_platform_mean_the_same_by_an_exit_code() -> None:
    assert main.DUPLICATE == EXIT_DUPLICATE
    assert main.NEVER_ANSWERED == EXIT_NEVER_ANSWERED


async def test_a_job_that_may_not_be_cancelled_stops_no_other(bench: Any) -> None:
    b = await bench()
    session, job = await _submitted(b, make_session()), await _submitted(b, make_job())
    for number in ("1", "2"):
        b.scheduler.change(number, started_at=b.clock())
    await b.poller.poll()

    async def refuse(*_: object) -> None:
        raise SchedulerRejected("Slurm does not permit it to this account.")

    b.scheduler.cancel = refuse
    b.clock.advance(200)
    await b.poller.poll()
    assert await b.state(session.id) is JobState.STARTING
    assert await b.state(job.id) is JobState.RUNNING
