from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.jobs.array_job_state import ArrayState, array_state
from aitne.core.jobs.states import JobState, TerminationReason

S = JobState
R = TerminationReason


def states(*found: JobState) -> ArrayState:
    return array_state({(state, None): found.count(state) for state in found})


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([S.PENDING_SUBMIT, S.PENDING_SUBMIT], S.PENDING_SUBMIT),
        ([S.QUEUED, S.SUBMITTING, S.PENDING_SUBMIT], S.QUEUED),
        ([S.QUEUED, S.STARTING], S.STARTING),
        ([S.RUNNING, S.COMPLETING, S.QUEUED], S.RUNNING),
        ([S.SUSPENDED, S.QUEUED], S.SUSPENDED),
        # A scheduler that does not answer for one task says nothing against the others.
        ([S.UNKNOWN, S.QUEUED], S.QUEUED),
        ([S.UNKNOWN, S.COMPLETED], S.UNKNOWN),
        # The array lives as long as one task does, whatever happened to the others.
        ([S.FAILED, S.COMPLETED, S.QUEUED], S.QUEUED),
        ([S.COMPLETED, S.COMPLETED], S.COMPLETED),
        ([S.COMPLETED, S.CANCELLED], S.CANCELLED),
        ([S.CANCELLED, S.NODE_FAILED], S.NODE_FAILED),
        ([S.NODE_FAILED, S.TIMED_OUT, S.OUT_OF_MEMORY], S.OUT_OF_MEMORY),
        ([S.FAILED, S.OUT_OF_MEMORY, S.COMPLETED], S.FAILED),
    ],
)
def test_the_state_of_an_array(tasks: list[JobState], expected: JobState) -> None:
    assert states(*tasks).state is expected


def test_the_message_counts_the_tasks_most_advanced_first() -> None:
    found = array_state(
        {
            (S.QUEUED, None): 5,
            (S.COMPLETED, R.COMPLETED): 2,
            (S.RUNNING, None): 3,
            (S.OUT_OF_MEMORY, R.OUT_OF_MEMORY): 1,
        }
    )
    assert found.message == "11 tasks: 3 running, 5 queued, 2 completed, 1 out of memory."
    assert states(S.QUEUED).message is None, "all tasks alike: nothing to add to the state"
    assert states(S.COMPLETED).message == "1 task: 1 completed."


def test_the_reason_is_that_of_the_worst_state() -> None:
    tasks = {
        (S.COMPLETED, R.COMPLETED): 7,
        (S.FAILED, R.START_FAILED): 1,
        (S.FAILED, R.FAILED): 2,
        (S.CANCELLED, R.CANCELLED): 4,
    }
    assert array_state(tasks).reason is R.FAILED
    assert array_state({**tasks, (S.QUEUED, None): 1}).reason is None, "it has not ended"
    assert array_state({**tasks, (S.FAILED, R.START_FAILED): 2}).reason is R.FAILED, "a tie"
    assert array_state({(S.FAILED, None): 1}).reason is None


def test_a_sweep_that_reached_its_goal_has_done_what_it_was_there_for() -> None:
    rest = {(S.CANCELLED, R.GOAL_REACHED): 5, (S.FAILED, R.FAILED): 1}
    running = array_state({**rest, (S.RUNNING, None): 1})
    assert (running.state, running.reason, running.message) == (S.RUNNING, R.GOAL_REACHED, None)
    done = array_state({**rest, (S.COMPLETED, R.COMPLETED): 1})
    assert (done.state, done.reason, done.message) == (S.COMPLETED, R.GOAL_REACHED, None)
    # The one that had reached it has failed after all, or its owner did not want it either.
    assert array_state({**rest, (S.TIMED_OUT, R.TIMED_OUT): 1}).state is S.FAILED
    given_up = {(S.CANCELLED, R.GOAL_REACHED): 5, (S.CANCELLED, R.CANCELLED): 1}
    assert array_state(given_up).state is S.CANCELLED


@pytest.mark.parametrize("tasks", [{}, {(S.QUEUED, None): 0}])
def test_an_array_without_tasks_is_no_array(
    tasks: dict[tuple[JobState, TerminationReason | None], int],
) -> None:
    with pytest.raises(ValueError, match="at least one task"):
        array_state(tasks)


@given(st.lists(st.sampled_from(list(JobState)), min_size=1))
def test_an_array_lives_exactly_as_long_as_a_task_does(tasks: list[JobState]) -> None:
    found = states(*tasks)
    assert found.state in tasks
    assert found.state.is_terminal == all(task.is_terminal for task in tasks)
