"""The state machine: whole, without dead ends, and strict."""

from __future__ import annotations

import itertools

import pytest

from aitne.core.errors import IllegalTransition
from aitne.core.jobs.states import (
    ACTIVE,
    RETRYABLE,
    STATE_OF_REASON,
    TERMINAL,
    TRANSITIONS,
    JobState,
    TerminationReason,
    check_transition,
    permits_retry,
)


def _reachable(start: JobState, without: frozenset[JobState] = frozenset()) -> set[JobState]:
    found, edge = {start}, [start]
    while edge:
        for state in TRANSITIONS[edge.pop()] - found - without:
            found.add(state)
            edge.append(state)
    return found


def test_every_state_has_its_row_and_is_reached_from_the_first() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert _reachable(JobState.PENDING_SUBMIT) == set(JobState)


@pytest.mark.parametrize("state", sorted(set(JobState) - TERMINAL))
def test_every_live_state_can_end_in_each_way_that_needs_no_allocation(state: JobState) -> None:
    assert _reachable(state) >= {JobState.CANCELLED, JobState.FAILED}


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_terminal_state_is_left_only_by_a_retry(state: JobState) -> None:
    assert TRANSITIONS[state] == {JobState.PENDING_SUBMIT}
    assert state.is_terminal
    assert not state.is_active


def test_unknown_never_means_finished() -> None:
    assert not JobState.UNKNOWN.is_terminal
    assert TRANSITIONS[JobState.UNKNOWN] >= TERMINAL | {JobState.RUNNING, JobState.QUEUED}


def test_running_may_be_requeued() -> None:
    check_transition(JobState.RUNNING, JobState.QUEUED)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(JobState, JobState)))
def test_check_transition_follows_the_table(old: JobState, new: JobState) -> None:
    if new is old or new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransition, match=f"from {old} to {new}"):
            check_transition(old, new)


def test_active_states_are_live() -> None:
    assert not ACTIVE & TERMINAL
    assert {state for state in JobState if state.is_active} == ACTIVE


def test_every_reason_has_a_terminal_state() -> None:
    assert set(STATE_OF_REASON) == set(TerminationReason)
    assert set(STATE_OF_REASON.values()) <= TERMINAL


@pytest.mark.parametrize("reason", sorted(TerminationReason))
def test_retries_need_a_retryable_reason_that_was_named(reason: TerminationReason) -> None:
    everything = frozenset(TerminationReason)
    assert permits_retry(reason, everything, 1, 1) == (reason in RETRYABLE)
    assert not permits_retry(reason, frozenset(), 1, 1)


def test_retries_stop_after_the_most() -> None:
    on = frozenset({TerminationReason.FAILED})
    assert [permits_retry(TerminationReason.FAILED, on, attempt, 2) for attempt in (1, 2, 3)] == [
        True,
        True,
        False,
    ]
