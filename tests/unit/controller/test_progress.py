"""Conclusions of a poll about jobs that wait: their reason and their expected start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from aitne.core.jobs.states import JobState
from aitne.core.ports.scheduler import SchedulerJob
from aitne.services.controller.changes_from_records import make_progress_changes
from tests.support.jobs import CREATED_AT, make_rank_group, make_session

HOUR = timedelta(hours=1)
ENDS = CREATED_AT + 4 * HOUR


def waits(start: Any, **fields: Any) -> tuple[Any, Any]:
    group = make_rank_group(make_session(), state=JobState.QUEUED, **fields)
    record = SchedulerJob(
        scheduler_id="7",
        job_id=group.id,
        attempt=1,
        state=JobState.QUEUED,
        pending_reason="Waits for 2 CPUs: 1 of 2 is free.",
        expected_start_at=start,
    )
    _, changes = make_progress_changes(group, record, CREATED_AT, ENDS)
    return changes.message, changes.model_dump(exclude_unset=True).get("expected_start_at", "same")


def test_a_start_before_the_end_of_the_session_is_expected() -> None:
    assert waits(ENDS - HOUR) == ("Waits for 2 CPUs: 1 of 2 is free.", ENDS - HOUR)


def test_no_start_is_expected_at_the_end_of_the_session_which_cancels_the_ranks() -> None:
    told = (
        "Waits for 2 CPUs: 1 of 2 is free. A start is expected only after its session ends, which "
        "cancels it: extend the session, or request less."
    )
    assert waits(ENDS) == (told, "same")
    assert waits(ENDS + HOUR, expected_start_at=ENDS - HOUR) == (told, None)
