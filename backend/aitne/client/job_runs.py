"""Operations on runs of jobs: snapshots, files, results, sweeps, comparisons."""

from __future__ import annotations

from datetime import datetime

from aitne.client.api_session import quote_segment
from aitne.client.record_base import Record
from aitne.client.records import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from aitne.client.api_session import ApiSession


RESULT_S = 120.0
"""Timeout in seconds of each wait for data while a result is transferred."""


class SnapshotRecord(Record):
    """Environment in which one attempt of a job ran; it allows the run to be reproduced."""

    attempt: int
    taken: dict[str, Any] | None
    """Git state, packages and host as recorded on the node; None: not recorded (yet)."""
    image: str
    """Image as ``name:version`` or the path of the user's own image; ``bare``: none."""
    image_digest: str | None
    """Digest of the image; None: no image, or the user's own."""
    datasets: list[dict[str, Any]]
    """Versions of the datasets that the job used."""
    modules: list[str]
    """Environment modules that were loaded."""
    spec: dict[str, Any]
    """Job file with all defaults filled in."""


class WrittenFileRecord(Record):
    """A file that was changed while the job ran."""

    path: str
    """Path relative to ``WrittenFilesRecord.folder``."""
    size_bytes: int
    modified_at: datetime
    """Time of the last change, according to the file system."""


class WrittenFilesRecord(Record, files=WrittenFileRecord):
    """Files in a job's folder that were changed while it ran, newest first."""

    folder: str
    """Absolute path of the folder that was searched."""
    files: list[WrittenFileRecord]
    cut: bool
    """Whether the list is incomplete because there were too many files."""


class ResultsRecord(Record):
    """Metrics that a job's program recorded."""

    updated_at: datetime
    """Time at which the metrics were last read on the node."""
    values: dict[str, float]
    """Last value of each metric, by name, if it is finite."""
    not_finite: dict[str, str]
    """``nan``, ``inf`` or ``-inf`` for the other metrics, by name."""
    series: dict[str, list[list[float]]]
    """Pairs of step and value of each metric, by name. Long series are thinned."""
    sources: list[str]
    """Files from which the metrics were read."""
    notes: list[str]
    """Problems that occurred while the files were read, as sentences."""


class SweepTaskRecord(Record):
    """One task of a sweep: its parameters and the metrics that it reported."""

    task: int
    """Index of the task in the array job."""
    job_id: str
    state: str
    parameters: dict[str, Any]
    """Parameter setting of the task, by name."""
    values: dict[str, float]
    """Last value of each metric, by name, if it is finite."""
    not_finite: dict[str, str]
    """``nan``, ``inf`` or ``-inf`` for the other metrics, by name. They are not ranked."""
    started_at: datetime | None
    ended_at: datetime | None


class SweepRecord(Record, tasks=SweepTaskRecord):
    """A sweep with all its tasks."""

    job_id: str
    """ID of the array job."""
    method: str
    """``grid``, ``random`` or ``list``."""
    parameters: list[str]
    metric: str | None
    """Metric by which the tasks are ranked; None: they are not ranked."""
    goal: str
    """``min`` or ``max``: whether smaller or larger values of the metric are better."""
    stop_when: dict[str, Any] | None
    """Condition under which the remaining tasks are cancelled (``metric``, ``goal``, ``value``);
    None: all tasks run.
    """
    best: int | None
    """Index of the task with the best value so far; None: no task has a value yet."""
    tasks: list[SweepTaskRecord]


class RerunRecord(Record):
    """Preview of a resubmission of an ended job."""

    possible: bool
    """Whether the job can run again unchanged."""
    problems: list[dict[str, Any]]
    """Reasons why it cannot run again, each with the field of the job file."""
    changes: list[dict[str, Any]]
    """Differences between the environment of the last run and the current one."""
    notes: list[str]
    """Sentences about what could not be compared."""


class ComparisonRecord(Record):
    """Comparison of two jobs."""

    a: dict[str, Any]
    b: dict[str, Any]
    differences: int
    """Number of fields with different values."""
    sections: list[dict[str, Any]]
    """Sections of the comparison. Each has rows with ``field``, the values ``a`` and ``b``, and
    ``same``, which is True if the values are equal.
    """


class Runs:
    """Operations on the results of jobs, as methods of ``client.jobs``: snapshots, metrics, sweeps."""

    _session: ApiSession

    def snapshot(self, job_id: str) -> SnapshotRecord:
        """Return the snapshot of a job: code, environment, image and datasets with which it ran."""
        return SnapshotRecord(
            self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/snapshot")
        )

    def result(self, job_id: str, *, rank: int | None = None) -> bytes:
        """Return the content of the file that contains the return value or exception of a submitted
        function. Use ``client.functions.future`` to load it.

        ``rank`` selects the rank; None: the value of rank 0 if the job completed, otherwise the
        first exception of any rank.

        Raises ``NotFound`` if the function has no result, and ``Conflict`` if the job has not ended
        or the file is too large.
        """
        path = f"/jobs/{quote_segment(job_id)}/result"
        return self._session.request_body("GET", path, query={"rank": rank}, timeout_s=RESULT_S)[1]

    def results(self, job_id: str) -> ResultsRecord:
        """Return the metrics that the job's program recorded. Raises ``NotFound`` if there are none
        yet."""
        return ResultsRecord(
            self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/results")
        )

    def notebook(self, job_id: str) -> bytes:
        """Return the executed copy of the notebook that the job runs. While the job runs, and after
        a failure, it contains the cells that were executed so far.

        Raises ``NotFound`` if the job does not run a notebook or has not executed a cell yet.
        """
        return self._session.request_body("GET", f"/jobs/{quote_segment(job_id)}/notebook")[1]

    def compare(self, job_id: str, other_id: str) -> ComparisonRecord:
        """Return the differences between two jobs or array tasks, such as their job files,
        packages, resource usage and metrics.
        """
        path = f"/jobs/{quote_segment(job_id)}/compare/{quote_segment(other_id)}"
        return ComparisonRecord(self._session.request_json("GET", path))

    def plan_resubmit(self, job_id: str) -> RerunRecord:
        """Check whether the job can run again, and return what has changed since its last run.
        Nothing is submitted.
        """
        return RerunRecord(
            self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/resubmit")
        )

    def sweep(self, job_id: str) -> SweepRecord:
        """Return the tasks of a sweep with their outcomes. Raises ``NotFound`` if the job is
        not a sweep."""
        return SweepRecord(
            self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/sweep")
        )

    def stop_sweep(self, job_id: str) -> Job:
        """Cancel all tasks of a sweep that have not ended, except the best one so far."""
        path = f"/jobs/{quote_segment(job_id)}/sweep/stop"
        return Job(self._session.request_json("POST", path, repeatable=True))

    def watch_sweep(self, job_id: str) -> Iterator[SweepRecord]:
        """Yield the sweep now, and again each time one of its tasks changes, until it has ended."""
        from aitne.client.events import follow_events

        previous = self.sweep(job_id)
        yield previous
        if self._has_ended(job_id):
            return
        for event in follow_events(self._session):
            if event is None or job_id in (event.job_id, event.data.get("array_job_id")):
                sweep = self.sweep(job_id)
                if sweep != previous:
                    previous = sweep
                    yield previous
                if self._has_ended(job_id):
                    return

    def _has_ended(self, job_id: str) -> bool:
        return Job(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}")).ended
