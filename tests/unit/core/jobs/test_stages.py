from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from aitne.core.jobs.progress_stages import StageStatus, list_stages
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job, JobType
from tests.support.jobs import CREATED_AT, make_job

S = JobState
MARKS = {"+": "done", ">": "current", ".": "waiting", "!": "failed", "-": "skipped"}
TIMES = ("submitted_at", "allocated_at", "started_at", "ready_at")


def at(minutes: int) -> datetime:
    return CREATED_AT + timedelta(minutes=minutes)


def job_at(state: JobState, came: int, kind: JobType = JobType.JOB, **fields: Any) -> Job:
    """Return a job that has the first ``came`` times, one minute apart."""
    times = {name: at(n) for n, name in enumerate(TIMES[:came], 1)}
    ended = {"ended_at": at(9)} if state.is_terminal else {}
    return make_job(state=state, type=kind, **times, **ended, **fields)


def marks(job: Job) -> str:
    names = {name: mark for mark, name in MARKS.items()}
    return "".join(names[stage.status.value] for stage in list_stages(job))


@pytest.mark.parametrize(
    ("state", "came", "expected"),
    [
        (S.PENDING_SUBMIT, 0, ">...."),
        (S.SUBMITTING, 0, ">...."),
        (S.UNCERTAIN, 0, ">...."),
        (S.QUEUED, 1, "+>..."),
        (S.STARTING, 2, "++>.."),
        (S.RUNNING, 3, "+++>."),
        (S.SUSPENDED, 3, "+++>."),
        (S.COMPLETING, 3, "+++>."),
        (S.UNKNOWN, 1, "+>..."),
        (S.QUEUED, 3, "+>..."),  # requeued: what was reached before no longer counts
        (S.COMPLETED, 3, "+++++"),
        (S.COMPLETED, 0, "+++++"),
        (S.FAILED, 3, "+++!-"),
        (S.FAILED, 0, "!----"),
        (S.TIMED_OUT, 3, "+++!-"),
        (S.LOST, 1, "+!---"),
        (S.CANCELLED, 1, "+----"),
        (S.CANCELLED, 3, "+++--"),
    ],
)
def test_the_stages_of_a_job(state: JobState, came: int, expected: str) -> None:
    assert marks(job_at(state, came)) == expected


@pytest.mark.parametrize(
    ("state", "came", "expected"),
    [
        (S.RUNNING, 3, "+++>."),
        (S.READY, 4, "++++>"),
        (S.COMPLETING, 4, "++++>"),
        (S.CANCELLED, 4, "+++++"),
        (S.TIMED_OUT, 4, "+++++"),
        (S.FAILED, 4, "++++!"),
        (S.FAILED, 3, "+++!-"),
    ],
)
def test_the_stages_of_a_session(state: JobState, came: int, expected: str) -> None:
    assert marks(job_at(state, came, JobType.SESSION)) == expected


@pytest.mark.parametrize("kind", JobType)
@pytest.mark.parametrize("state", JobState)
def test_every_state_has_five_stages_and_at_most_one_current(
    state: JobState, kind: JobType
) -> None:
    stages = list_stages(job_at(state, 3, kind))
    assert len(stages) == 5
    current = [stage for stage in stages if stage.status is StageStatus.CURRENT]
    assert len(current) == (0 if state.is_terminal else 1)


def test_stages_follow_one_another_without_a_gap() -> None:
    stages = list_stages(job_at(S.COMPLETED, 3))
    assert stages[0].started_at == CREATED_AT
    for before, after in pairwise(stages):
        assert before.ended_at == after.started_at
    assert stages[-1].ended_at == at(9)


def test_a_stage_that_passed_unseen_took_no_time() -> None:
    stages = list_stages(make_job(state=S.RUNNING, submitted_at=at(1), started_at=at(3)))
    assert (stages[1].ended_at, stages[2].started_at, stages[2].ended_at) == (at(3), at(3), at(3))


def test_current_stage_shows_reason() -> None:
    stages = list_stages(job_at(S.QUEUED, 1, message="Waits for 2 GPUs."))
    assert [stage.detail for stage in stages] == [None, "Waits for 2 GPUs.", None, None, None]
    failed = list_stages(
        job_at(S.FAILED, 3, message="Exit code 1.", reason=TerminationReason.FAILED)
    )
    assert failed[3].detail == "Exit code 1."
