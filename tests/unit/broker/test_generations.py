"""A client of the broker gets the scheduler's latest records, also after a long pause."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.broker import shared_query
from aitne.broker.shared_query import Generations, SharedQuery
from aitne.core.broker.protocol import PollResult
from aitne.core.errors import SchedulerUnavailable
from aitne.core.jobs.states import JobState
from aitne.core.ports.scheduler import SchedulerJob

STATES = (JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED)


class Caller:
    """The records that a client of the broker keeps between two polls."""

    def __init__(self) -> None:
        self.generation: str | None = None
        self.held: dict[int, SchedulerJob] = {}

    def take(self, polled: PollResult) -> None:
        if polled.full:
            self.held = {}
        for number in polled.gone:
            self.held.pop(number, None)
        self.held.update(polled.new)
        self.generation = polled.generation


def record(number: int, state: JobState) -> SchedulerJob:
    return SchedulerJob(scheduler_id=str(number), job_id=UUID(int=number), attempt=1, state=state)


@pytest.mark.parametrize("remembered", [200_000, 2])
@given(
    steps=st.lists(
        st.one_of(
            st.dictionaries(st.integers(1, 6), st.sampled_from(STATES), max_size=6),  # a poll
            st.integers(0, 2),  # a caller asks
        ),
        max_size=30,
    )
)
def test_every_caller_holds_the_latest_poll(
    remembered: int, steps: list[dict[int, JobState] | int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_query, "_MAX_GONE", remembered)
        generations, callers = Generations(), [Caller(), Caller(), Caller()]
        latest: dict[int, SchedulerJob] = {}
        for step in steps:
            if isinstance(step, int):
                callers[step].take(generations.list_changes_since(callers[step].generation))
                held = callers[step].held.values()
                assert {id(each) for each in held} == {id(each) for each in latest.values()}
                continue
            # The port's promise: what has not changed is the very same object.
            latest = {
                number: latest[number]
                if number in latest and latest[number].state is state
                else record(number, state)
                for number, state in step.items()
            }
            generations.update(list(latest.values()))


def test_only_what_changed_is_told() -> None:
    generations, caller = Generations(), Caller()
    jobs = [record(number, JobState.QUEUED) for number in range(1_000)]
    generations.update(jobs)
    caller.take(generations.list_changes_since(None))

    jobs[7] = record(7, JobState.RUNNING)
    generations.update(jobs)
    told = generations.list_changes_since(caller.generation)

    assert not told.full
    assert (len(told.gone), [job.state for _, job in told.new]) == (1, [JobState.RUNNING])
    caller.take(told)
    assert generations.list_changes_since(caller.generation).new == []


@pytest.mark.parametrize("held", ["", "1", "other:3", ":", "other:x", "x" * 100])
def test_a_generation_of_another_broker_is_not_known(held: str) -> None:
    generations = Generations()
    generations.update([record(1, JobState.QUEUED)])
    assert generations.list_changes_since(held).full
    own, _, number = generations.list_changes_since(None).generation.partition(":")
    assert generations.list_changes_since(f"{own}:{int(number) + 1}").full


async def test_a_failure_is_everybodys_and_the_next_one_asks_again() -> None:
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.01)
        if asked == 1:
            raise SchedulerUnavailable("down")
        return asked

    shared = SharedQuery(ask, fresh_s=0.5)
    results = await asyncio.gather(*(shared.get() for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, SchedulerUnavailable) for result in results)
    assert asked == 1
    eager = SharedQuery(ask, fresh_s=0.0)
    assert [await eager.get(), await eager.get()] == [2, 3]
