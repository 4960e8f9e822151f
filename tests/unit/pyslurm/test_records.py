"""Tests of the conversion of pyslurm's jobs to the platform's records."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.schedulers._slurm.libslurm import pyslurm_records, worker
from aitne.core.errors import SchedulerUnavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.ports.scheduler import SchedulerJob

JOB = UUID("00000000-0000-4000-8000-000000000001")
SUBMITTED, STARTED, ENDED = 1_795_266_493, 1_795_266_500, 1_795_266_560


def said(**changes: Any) -> SimpleNamespace:
    """Return a job of pyslurm that runs on two nodes."""
    return SimpleNamespace(
        **{
            "id": 12,
            "comment": f"aitne:{JOB}:1",
            "user_name": "alice",
            "state": "RUNNING",
            "state_reason": "None",
            "allocated_nodes": "n[1-2]",
            "partition": "gpu",
            "priority": 7,
            "submit_time": SUBMITTED,
            "start_time": STARTED,
            "end_time": ENDED,
            "time_limit": 90,
            "exit_code": 0,
            "exit_code_signal": 0,
            "requeue_count": 0,
            "dependencies": None,
            "array_id": None,
            "array_task_id": None,
            "array_tasks_waiting": None,
        }
        | changes
    )


def rows(**changes: Any) -> list[SchedulerJob]:
    """Return the records of a job that passed the worker's JSON."""
    return [
        *pyslurm_records.to_scheduler_jobs(
            json.loads(json.dumps(worker.make_record(said(**changes))))
        )
    ]


def row(**changes: Any) -> SchedulerJob:
    (found,) = rows(**changes)
    return found


def waiting(**changes: Any) -> SchedulerJob:
    return row(
        **{"state": "PENDING", "allocated_nodes": None, "state_reason": "Resources"} | changes
    )


def ended(state: str = "FAILED", **changes: Any) -> SchedulerJob:
    return row(state=state, **changes)


def test_a_job_that_runs() -> None:
    job = row()
    assert (job.scheduler_id, job.job_id, job.attempt) == ("12", JOB, 1)
    assert (job.state, job.reason, job.account) == (JobState.RUNNING, None, "alice")
    assert (job.nodes, job.partition, job.priority) == (("n1", "n2"), "gpu", 7)
    assert (job.time_limit_s, job.exit_code, job.pending_reason) == (5_400, None, None)
    assert job.started_at is not None
    assert job.started_at.timestamp() == STARTED
    assert job.ended_at is None  # end_time is when its time would be over
    assert type(job).model_validate_json(job.model_dump_json()) == job


def test_a_job_that_waits_has_an_expected_start_alone() -> None:
    job = waiting()
    assert (job.state, job.nodes, job.started_at, job.ended_at) == (JobState.QUEUED, (), None, None)
    assert job.expected_start_at is not None
    assert job.expected_start_at.timestamp() == STARTED
    assert job.pending_reason == "Waits for nodes to become free."


def test_the_jobs_that_one_waits_for_are_named() -> None:
    dependencies = {"afterok": ["5(unfulfilled)", "9_*(unfulfilled)"], "singleton": False}
    job = waiting(state_reason="Dependency", dependencies=dependencies | {"satisfy": "all"})
    assert job.pending_reason == "Waits for jobs 5, 9 to complete."


@pytest.mark.parametrize(
    ("state", "code", "signal", "wanted"),
    [
        ("COMPLETED", 0, 0, (JobState.COMPLETED, 0, None)),
        ("FAILED", 7, 0, (JobState.FAILED, 7, None)),
        ("FAILED", 0, 11, (JobState.FAILED, None, 11)),
        ("OUT_OF_MEMORY", 0, 125, (JobState.OUT_OF_MEMORY, None, None)),
        ("TIMEOUT", 0, 15, (JobState.TIMED_OUT, None, 15)),
        ("COMPLETING", 0, 0, (JobState.COMPLETING, None, None)),
        ("NEW_IN_27", 0, 0, (JobState.UNKNOWN, None, None)),
    ],
)
def test_ends(state: str, code: int, signal: int, wanted: tuple[object, ...]) -> None:
    job = ended(state, exit_code=code, exit_code_signal=signal)
    assert (job.state, job.exit_code, job.signal) == wanted
    assert (job.ended_at is not None) is job.state.is_terminal


def test_job_cancelled_before_start_has_no_start_time() -> None:
    job = row(state="CANCELLED", allocated_nodes=None)
    assert (job.reason, job.started_at, job.exit_code) == (TerminationReason.CANCELLED, None, None)


@pytest.mark.parametrize(
    ("job", "doubt"),
    [
        (ended(exit_code=72), True),  # or 200
        (ended(exit_code=0), True),  # or 128
        (ended("COMPLETED"), False),
        (ended(exit_code_signal=9), False),
        (row(), False),
    ],
)
def test_an_exit_code_that_may_be_128_more_is_looked_up(job: SchedulerJob, doubt: bool) -> None:
    assert pyslurm_records.has_doubtful_exit_code(job) is doubt


def test_waiting_tasks_of_an_array_have_one_record() -> None:
    task = row(array_id=12, array_task_id=3, id=15)
    assert (task.scheduler_id, task.array_task_id) == ("12_3", 3)
    first = row(array_id=12, array_task_id=None, id=12)
    assert (first.scheduler_id, first.array_task_id) == ("12_0", 0)
    (whole,) = rows(
        state="PENDING", allocated_nodes=None, array_id=12, array_tasks_waiting="4-6,9%2"
    )
    assert (whole.scheduler_id, whole.array_task_ids) == ("12", "4-6,9")
    assert whole.state is JobState.QUEUED


def test_tasks_that_are_left_out_are_not_taken_for_absent() -> None:
    with pytest.raises(SchedulerUnavailable, match="array 12"):
        rows(state="PENDING", array_id=12, array_tasks_waiting="1,3,5,...")


@pytest.mark.parametrize("comment", [None, "", "aitne:", f"aitne:{JOB}:1 ", f"aitne:{JOB}:0"])
def test_jobs_of_others_are_none_of_ours(comment: str | None) -> None:
    assert rows(comment=comment) == []


@given(
    st.fixed_dictionaries(
        {},
        optional={
            field: st.none() | st.integers() | st.text() | st.lists(st.text())
            for field in set(worker.FIELDS) - {"comment", "array_id"}
        },
    )
)
def test_odd_values_break_nothing(changes: dict[str, Any]) -> None:
    (job,) = rows(**changes)
    assert type(job).model_validate_json(job.model_dump_json()) == job
    assert "state" not in changes or not job.state.is_terminal


def test_missing_pyslurm_attributes_are_named() -> None:
    job = SimpleNamespace(**{field: property() for field in worker.FIELDS if field != "comment"})
    jobs = SimpleNamespace(load=list)
    lacking = SimpleNamespace(Job=job, Jobs=jobs, PyslurmError=Exception)
    assert worker.list_missing_names(lacking) == ["Job.comment"]
    job.comment = property()
    assert worker.list_missing_names(lacking) == []
