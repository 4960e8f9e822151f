from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitne.core.errors import Conflict, IllegalTransition, NotFound, StaleEpoch
from aitne.core.jobs.states import LIVE, TERMINAL, TRANSITIONS, JobState, TerminationReason
from aitne.core.models.job import Job, JobChanges
from aitne.store import Store
from tests.contract.store.conftest import Clock
from tests.support.jobs import make_array, make_job, store_job_token

S = JobState


async def stored(store: Store, **overrides: Any) -> Job:
    return (await store.create_job(make_job(**overrides))).job


async def kinds(store: Store, job: Job) -> list[str]:
    return [event.kind for event in await store.list_job_events(job.id)]


async def test_a_change_is_written_with_its_event(store: Store, clock: Clock) -> None:
    job = await stored(store, state=S.QUEUED, message="Waits for a GPU.", name="it's 🚀")
    now = clock.pass_(5)
    changed = await store.transition_job(
        job.id,
        S.STARTING,
        JobChanges(nodes=("n1",), allocated_at=now, message=None, scheduler_id="17"),
    )
    assert changed == job.model_copy(
        update={
            "state": S.STARTING,
            "nodes": ("n1",),
            "allocated_at": now,
            "message": None,
            "scheduler_id": "17",
            "version": 2,
        }
    )
    assert await store.get_job(job.id) == changed
    created, event = await store.list_job_events(job.id)
    assert (created.kind, event.kind) == ("job.created", "job.state")
    assert (event.time, event.owner, event.project) == (now, "ada", "vision")
    assert event.data == {
        "state": "STARTING",
        "previous": "QUEUED",
        "reason": None,
        "message": None,
        "attempt": 1,
        "nodes": ["n1"],
        "url": None,
        "exit_code": None,
        "submitted_at": None,
        "allocated_at": "2026-03-01T12:00:05.123456Z",
        "started_at": None,
        "ready_at": None,
        "ended_at": None,
        "expires_at": None,
        "idle_ends_at": None,
        "gpu_idle_since": None,
        "cancel_requested": False,
        "version": 2,
        "type": "job",
        "name": "it's 🚀",
        "array_job_id": None,
    }
    before = {"state": "QUEUED", "message": "Waits for a GPU.", "nodes": [], "allocated_at": None}
    del event.data["previous"]
    assert created.data == event.data | before | {"version": 1}


async def test_transition_keeps_unset_fields(store: Store) -> None:
    job = await stored(store, state=S.RUNNING, message="stays", exit_code=4, nodes=("n1",))
    changed = await store.transition_job(job.id, S.RUNNING, JobChanges(address="n1:8888"))
    assert changed == job.model_copy(update={"address": "n1:8888", "version": 2})
    assert await kinds(store, job) == ["job.created", "job.changed"]
    assert "previous" not in (await store.list_job_events(job.id))[-1].data


async def test_a_change_of_nothing_writes_nothing(store: Store) -> None:
    job = await stored(store, state=S.RUNNING, message="m", nodes=("n1",))
    same = JobChanges(message="m", nodes=("n1",), exit_code=None)
    assert await store.transition_job(job.id, S.RUNNING, same) == job
    assert await store.transition_job(job.id, S.RUNNING) == job
    assert await kinds(store, job) == ["job.created"]


async def test_fields_can_be_emptied(store: Store) -> None:
    job = await stored(store, state=S.RUNNING, nodes=("n1",), address="a:1", message="m")
    changed = await store.transition_job(
        job.id, S.QUEUED, JobChanges(nodes=(), address=None, restart_count=1), message="again"
    )
    assert (changed.nodes, changed.address, changed.message) == ((), None, "again")
    assert changed.restart_count == 1
    assert await store.get_job(job.id) == changed


async def test_a_message_may_hold_what_an_agent_sends(store: Store) -> None:
    job = await stored(store)
    changed = await store.transition_job(
        job.id, S.FAILED, message="a\0b\ud83d".encode("utf-8", "replace").decode()
    )
    assert changed.state is S.FAILED
    assert (await store.get_job(job.id)).message == "a\ufffdb?"


async def test_the_guards(store: Store, epoch: int) -> None:
    job = await stored(store)
    with pytest.raises(NotFound):
        await store.transition_job(uuid4(), S.SUBMITTING)
    with pytest.raises(Conflict, match="attempt 1"):
        await store.transition_job(job.id, S.SUBMITTING, attempt=2)
    with pytest.raises(Conflict, match="version 1"):
        await store.transition_job(job.id, S.SUBMITTING, version=3)
    with pytest.raises(StaleEpoch):
        await store.transition_job(job.id, S.SUBMITTING, epoch=epoch + 1)
    with pytest.raises(IllegalTransition, match="RUNNING"):
        await store.transition_job(job.id, S.RUNNING)
    assert await store.get_job(job.id) == job
    await store.transition_job(job.id, S.SUBMITTING, attempt=1, version=1, epoch=epoch)


async def test_of_two_with_the_same_version_one_wins(store: Store, other: Store) -> None:
    job = await stored(store, state=S.RUNNING)
    results = await asyncio.gather(
        *(
            which.transition_job(job.id, S.RUNNING, version=1, message=f"m{n}")
            for n in range(4)
            for which in (store, other)
        ),
        return_exceptions=True,
    )
    assert sum(isinstance(result, Job) for result in results) == 1
    assert sum(type(result) is Conflict for result in results) == 7
    assert (await store.get_job(job.id)).version == 2


async def test_the_end_removes_the_jobs_secrets(store: Store, epoch: int) -> None:
    job = await stored(store, state=S.RUNNING)
    await store_job_token(store, job.id, "hash", epoch=epoch)
    await store.save_handover(job.id, "encrypted", replaces=None)
    assert await store.find_job_by_token("hash") == job
    await store.transition_job(job.id, S.COMPLETED)
    assert await store.find_job_by_token("hash") is None
    assert await store.find_handover(job.id) is None


async def test_a_requeue_removes_only_the_hand_over(store: Store, epoch: int) -> None:
    job = await stored(store, state=S.RUNNING)
    await store_job_token(store, job.id, "hash", epoch=epoch)
    await store.save_handover(job.id, "encrypted", replaces=None, session_token_hash="session")
    queued = await store.transition_job(job.id, S.QUEUED)
    assert await store.find_job_by_token("hash") == queued
    assert await store.find_handover(job.id) is None
    assert await store.find_session_by_token("session") is None


class TestRetry:
    async def test_a_new_attempt_knows_nothing_of_the_old_one(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        old = {name: clock.now for name in JobChanges.model_fields if name.endswith("_at")}
        job = await stored(
            store,
            state=S.NODE_FAILED,
            **old,
            restart_count=3,
            folder="/home/u/jobs/1",
            scheduler_id="1",
            reason=TerminationReason.NODE_FAILED,
            message="m",
            exit_code=1,
            signal=9,
            nodes=("n1",),
            address="a:1",
            url="u",
        )
        [first] = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        await store.finish_outbox_items(first.id, epoch=epoch)
        again = await store.retry_job(job.id, epoch=epoch)
        assert again == make_job(id=job.id, attempt=2, version=2, folder="/home/u/jobs/1")
        assert await store.get_job(job.id) == again
        [item] = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60)
        assert (item.kind, item.job_id, item.attempt) == ("submit", job.id, 2)
        event = (await store.list_job_events(job.id))[-1]
        assert (event.data["state"], event.data["previous"]) == ("PENDING_SUBMIT", "NODE_FAILED")

    async def test_the_end_of_one_attempt_and_the_next_are_one_change(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        job = await stored(store, state=S.RUNNING)
        end = JobChanges(reason=TerminationReason.NODE_FAILED, ended_at=clock.now)
        with pytest.raises(Conflict, match="attempt 1"):
            await store.retry_job(job.id, S.NODE_FAILED, end, attempt=2, epoch=epoch)
        with pytest.raises(IllegalTransition, match="has not ended"):
            await store.retry_job(job.id, S.READY, epoch=epoch)
        assert await store.get_job(job.id) == job, "nothing of it was done"
        again = await store.retry_job(job.id, S.NODE_FAILED, end, attempt=1, epoch=epoch)
        assert again == make_job(id=job.id, attempt=2, version=3)
        states = [event.data["state"] for event in await store.list_job_events(job.id)]
        assert states == ["RUNNING", "NODE_FAILED", "PENDING_SUBMIT"]

    async def test_a_job_that_is_being_cancelled_is_not_begun_again(
        self, store: Store, epoch: int, clock: Clock
    ) -> None:
        job = await stored(store, state=S.RUNNING)
        await store.request_cancel(job.id, clock.now)
        ended = await store.retry_job(job.id, S.NODE_FAILED, epoch=epoch)
        assert (ended.state, ended.attempt) == (S.NODE_FAILED, 1)

    async def test_only_what_has_ended(self, store: Store, epoch: int) -> None:
        for state in LIVE:
            job = await stored(store, state=state)
            with pytest.raises(IllegalTransition, match="has not ended"):
                await store.retry_job(job.id, epoch=epoch)

    async def test_only_the_leader(self, store: Store, epoch: int) -> None:
        job = await stored(store, state=S.LOST)
        with pytest.raises(StaleEpoch):
            await store.retry_job(job.id, epoch=epoch - 1)
        with pytest.raises(NotFound):
            await store.retry_job(uuid4(), epoch=epoch)

    async def test_terminal_state_is_left_by_retry_only(self, store: Store) -> None:
        job = await stored(store, state=S.FAILED)
        with pytest.raises(IllegalTransition, match="retry"):
            await store.transition_job(job.id, S.PENDING_SUBMIT)
        late = await store.transition_job(job.id, S.FAILED, JobChanges(exit_code=7))
        assert late.exit_code == 7, "what is learned late may still be noted"


class TestCancel:
    async def test_before_it_was_submitted(self, store: Store, clock: Clock, epoch: int) -> None:
        job = await stored(store)
        [item] = await store.lease_outbox_items(epoch=epoch, limit=1, lease_s=60)
        now = clock.pass_(1)
        done = await store.request_cancel(job.id, now)
        assert (done.state, done.reason) == (S.CANCELLED, TerminationReason.CANCELLED)
        assert (done.ended_at, done.cancel_requested_at) == (now, now)
        assert await store.get_outbox_depth() == (0, 0.0)
        # The controller that had taken the item meanwhile cannot go on with it.
        with pytest.raises(IllegalTransition):
            await store.transition_job(job.id, S.SUBMITTING, epoch=epoch)
        await store.finish_outbox_items(item.id, epoch=epoch)

    async def test_a_live_job(self, store: Store, clock: Clock, epoch: int) -> None:
        for state in LIVE - {S.PENDING_SUBMIT}:
            job = await stored(store, state=state)
            now = clock.pass_(1)
            wished = await store.request_cancel(job.id, now)
            assert wished == job.model_copy(update={"cancel_requested_at": now, "version": 2})
            assert await store.get_job(job.id) == wished
            event = (await store.list_job_events(job.id))[-1]
            assert (event.kind, event.data["cancel_requested"]) == ("job.changed", True)
            assert await store.request_cancel(job.id, clock.pass_(9)) == wished, "one is enough"
            items = await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=3_600)
            assert [item.kind for item in items if item.kind != "submit"] == ["cancel"]

    async def test_a_submission_that_was_begun_is_settled_first(
        self, store: Store, clock: Clock, epoch: int
    ) -> None:
        """Otherwise the scheduler's id of the job would stay unknown."""
        for state in (S.SUBMITTING, S.UNCERTAIN):
            job, (array, tasks) = await stored(store, state=state), make_array("0-1", state=state)
            await store.create_job(array, tasks)
            for each in (job, array):
                await store.request_cancel(each.id, clock.now)
            items = await store.lease_outbox_items(epoch=epoch, limit=99, lease_s=3_600)
            assert [item.job_id for item in items if item.kind == "submit"] == [job.id, array.id]

    async def test_an_ended_job(self, store: Store, clock: Clock) -> None:
        for state in TERMINAL:
            job = await stored(store, state=state)
            assert await store.request_cancel(job.id, clock.now) == job
            assert await kinds(store, job) == ["job.created"]

    async def test_with_a_word_of_who_ended_it(self, store: Store, clock: Clock) -> None:
        pending, running = await stored(store), await stored(store, state=S.RUNNING)
        array, tasks = make_array("0-1", state=S.RUNNING)
        await store.create_job(array, tasks)
        for job in (pending, running, array):
            assert (await store.request_cancel(job.id, clock.now, "By bob.")).message == "By bob."
        assert {task.message for task in await store.list_array_tasks(array.id)} == {"By bob."}
        for job in (running, array):
            again = await store.request_cancel(job.id, clock.pass_(1), "By ada.")
            assert again.message == "By bob.", "the first to ask ended it"
        assert {task.message for task in await store.list_array_tasks(array.id)} == {"By bob."}

    async def test_no_such_job(self, store: Store, clock: Clock) -> None:
        with pytest.raises(NotFound):
            await store.request_cancel(uuid4(), clock.now)


async def test_a_cancellation_of_what_was_seen_spares_what_moved_on(
    store: Store, clock: Clock
) -> None:
    job = await stored(store, state=S.READY)
    kept = await store.transition_job(job.id, S.READY, JobChanges(idle_ends_at=clock.now))
    with pytest.raises(Conflict):
        await store.request_cancel(job.id, clock.now, version=job.version)
    assert (await store.get_job(job.id)).cancel_requested_at is None
    done = await store.request_cancel(job.id, clock.now, version=kept.version)
    assert done.cancel_requested_at == clock.now


async def test_extend(store: Store, epoch: int) -> None:
    job = await stored(store, state=S.RUNNING)
    assert await store.find_requested_time_limit(job.id) is None
    assert await store.request_extend(job.id, 7_200, latest_requested_s=None) == job
    assert await store.find_requested_time_limit(job.id) == 7_200
    with pytest.raises(Conflict, match="at the same moment"):
        await store.request_extend(job.id, 9_000, latest_requested_s=None)
    item = (await store.lease_outbox_items(epoch=epoch, limit=9, lease_s=60))[-1]
    assert (item.kind, item.job_id, item.data) == ("extend", job.id, {"time_limit_s": 7_200})
    ended = await stored(store, state=S.FAILED)
    with pytest.raises(Conflict, match="ended"):
        await store.request_extend(ended.id, 60, latest_requested_s=None)
    with pytest.raises(NotFound):
        await store.request_extend(uuid4(), 60, latest_requested_s=None)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["transition", "transition", "transition", "retry", "cancel"]),
        st.sampled_from(list(JobState)),
        st.sampled_from([None, None, "a sentence"]),
    ),
    max_size=12,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.sampled_from(list(JobState)), moves=MOVES)
async def test_any_sequence_of_changes_keeps_to_the_table(
    store: Store, epoch: int, clock: Clock, start: JobState, moves: list[tuple[str, S, str]]
) -> None:
    """State, attempt, version and events after each move are what the table of states says."""
    job = await stored(store, state=start)
    expected = [start]
    for verb, to, message in moves:
        before = await store.get_job(job.id)
        state, events = before.state, len(await store.list_job_events(job.id))
        try:
            if verb == "transition":
                legal = to is state or (to in TRANSITIONS[state] and not state.is_terminal)
                after = await store.transition_job(job.id, to, message=message)
                assert after.state is to
                grows = to is not state or (message is not None and message != before.message)
            elif verb == "retry":
                legal = state.is_terminal
                after = await store.retry_job(job.id, epoch=epoch)
                assert (after.state, after.attempt) == (S.PENDING_SUBMIT, before.attempt + 1)
                grows = True
            else:
                legal = True
                after = await store.request_cancel(job.id, clock.now)
                ends = state is S.PENDING_SUBMIT
                assert after.state is (S.CANCELLED if ends else state)
                grows = ends or (not state.is_terminal and before.cancel_requested_at is None)
            assert legal, f"{verb} {state} -> {to} went through"
            assert after.version == before.version + grows
        except IllegalTransition:
            assert not legal, f"{verb} {state} -> {to} was refused"
            after, grows = before, False
        assert await store.get_job(job.id) == after
        written = (await store.list_job_events(job.id))[events:]
        assert [event.data["version"] for event in written] == [after.version] * grows
        if after.state is not state:
            expected.append(after.state)
    history = await store.list_job_events(job.id)
    assert [event.data["state"] for event in history if event.kind != "job.changed"] == expected
