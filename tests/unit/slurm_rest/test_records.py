"""A job's record of every release, in the platform's terms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.schedulers._slurm.rest import rest_records
from aitne.adapters.schedulers._slurm.rest.version_conversion import RECORDS, upgrade_record
from aitne.core.errors import SchedulerUnavailable
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.ports.scheduler import SchedulerJob
from tests.unit.slurm_rest.recorded import VERSIONS, answer

pytestmark = pytest.mark.parametrize(("release", "version"), VERSIONS)


def rows(release: str, version: int, name: str) -> list[SchedulerJob]:
    _, body = answer(release, version, name)
    lifted = [upgrade_record(job, version) for job in body["jobs"]]
    return [row for record in lifted for row in rest_records.to_scheduler_jobs(record)]


def test_a_running_job(release: str, version: int) -> None:
    (row,) = rows(release, version, "job-running")
    assert (row.state, row.reason, row.attempt) == (JobState.RUNNING, None, 1)
    assert str(row.job_id) == "00000000-0000-4000-8000-000000000002"
    assert row.account == "alice"
    assert len(row.nodes) == 2
    assert row.partition == "gpu"
    assert row.time_limit_s == 600
    assert row.submitted_at is not None
    assert row.started_at is not None
    assert row.submitted_at <= row.started_at
    assert row.ended_at is None
    assert row.expected_start_at is None
    assert row.exit_code is None
    assert row.pending_reason is None
    assert row.restart_count == 0


def test_how_it_ended(release: str, version: int) -> None:
    (failed,) = rows(release, version, "job-failed")
    assert (failed.state, failed.exit_code, failed.signal) == (JobState.FAILED, 7, None)
    assert failed.reason is TerminationReason.FAILED
    assert failed.ended_at is not None
    (killed,) = rows(release, version, "job-killed")
    assert (killed.state, killed.exit_code, killed.signal) == (JobState.FAILED, None, 11)
    # 22.05 gives every end by a signal the reason of a failed launch.
    assert killed.reason is TerminationReason.FAILED
    (cancelled,) = rows(release, version, "job-cancelled")
    assert cancelled.state is JobState.CANCELLED
    assert cancelled.reason is TerminationReason.CANCELLED


def test_a_job_that_waits_says_for_which(release: str, version: int) -> None:
    (row,) = rows(release, version, "job-waiting")
    assert (row.state, row.started_at, row.nodes) == (JobState.QUEUED, None, ())
    (before,) = rows(release, version, "job-running")
    assert row.pending_reason == f"Waits for job {before.scheduler_id} to complete."


def test_waiting_tasks_of_an_array_have_one_record(release: str, version: int) -> None:
    *running, waiting = sorted(
        rows(release, version, "job-array"), key=lambda row: row.array_task_id or 99
    )
    assert [row.array_task_id for row in running] == [1, 2]
    assert {row.state for row in running} == {JobState.RUNNING}
    assert (waiting.array_task_id, waiting.array_task_ids) == (None, "3-6")
    assert waiting.state is JobState.QUEUED
    assert [row.scheduler_id for row in running] == [f"{waiting.scheduler_id}_{n}" for n in (1, 2)]
    assert waiting.pending_reason == "Waits for its array: no more tasks of it may run at once."


def test_jobs_of_others_are_left_out(release: str, version: int) -> None:
    _, body = answer(release, version, "job-running")
    for comment in ("", "aitne", f" {body['jobs'][0]['comment']}", None):
        other = upgrade_record({**body["jobs"][0], "comment": comment}, version)
        assert rest_records.to_scheduler_jobs(other) == ()


def test_an_array_that_slurm_cut_short_is_not_taken_for_a_whole(release: str, version: int) -> None:
    _, body = answer(release, version, "job-array")
    waiting = next(job for job in body["jobs"] if job["array_task_string"])
    cut = upgrade_record({**waiting, "array_task_string": "3,5,7,..."}, version)
    with pytest.raises(SchedulerUnavailable, match="only some of the tasks"):
        rest_records.to_scheduler_jobs(cut)


def test_every_step_keeps_what_it_does_not_know(release: str, version: int) -> None:
    _, body = answer(release, version, "job-complete")
    if version not in RECORDS:
        assert upgrade_record(body["jobs"][0], version) == body["jobs"][0]
        return
    _, step = RECORDS[version]
    assert step({"new in Slurm": [1]}) == {"new in Slurm": [1]}
    before = dict(body["jobs"][0])
    step(body["jobs"][0])
    assert body["jobs"][0] == before  # a pure function


@given(
    data=st.dictionaries(
        st.sampled_from(
            [
                "array_job_id",
                "array_task_id",
                "array_task_string",
                "exit_code",
                "job_state",
                "nodes",
                "start_time",
                "time_limit",
                "priority",
                "job_resources",
                "restart_cnt",
                "comment",
            ]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(["set", "infinite", "number", "signal", "id"]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=6,
        ),
    )
)
def test_nonsense_never_means_finished(release: str, version: int, data: dict[str, Any]) -> None:
    _, body = answer(release, version, "job-running")
    odd = {**body["jobs"][0], **data}
    try:
        found = rest_records.to_scheduler_jobs(upgrade_record(odd, version))
    except SchedulerUnavailable:
        return
    if odd.get("job_state") == body["jobs"][0]["job_state"]:
        assert not any(row.state.is_terminal for row in found)
