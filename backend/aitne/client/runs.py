"""Operations on runs of jobs: snapshots, files, results, sweeps, comparisons."""

from __future__ import annotations

from datetime import datetime

from aitne.client.record import Record
from aitne.client.records import Job
from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from aitne.client.session import ApiSession


RESULT_S = 120.0
"""Timeout in seconds of each wait for data while a result is transferred."""


class SnapshotRecord(Record):
    """Circumstances of a job's run, to reproduce it. ``taken`` has what was recorded on the node
    (git, environment, host); None if nothing was recorded."""

    attempt: int
    taken: dict[str, Any] | None
    image: str
    image_digest: str | None
    datasets: list[dict[str, Any]]
    modules: list[str]
    spec: dict[str, Any]


class WrittenFileRecord(Record):
    """A file that was changed while the job ran."""

    path: str
    size_bytes: int
    modified_at: datetime


class WrittenFilesRecord(Record, files=WrittenFileRecord):
    """Files in a job's folder that were changed while it ran, newest first."""

    folder: str
    files: list[WrittenFileRecord]
    cut: bool


class ResultsRecord(Record):
    """Metrics that a job's program recorded."""

    updated_at: datetime
    values: dict[str, float]
    series: dict[str, list[list[float]]]
    sources: list[str]
    notes: list[str]


class SweepTaskRecord(Record):
    """One task of a sweep: its parameters and the metrics that it reported."""

    task: int
    job_id: str
    state: str
    parameters: dict[str, Any]
    values: dict[str, float]
    started_at: datetime | None
    ended_at: datetime | None


class SweepRecord(Record, tasks=SweepTaskRecord):
    """A sweep with all its tasks."""

    job_id: str
    method: str
    parameters: list[str]
    metric: str | None
    goal: str
    stop_when: dict[str, Any] | None
    best: int | None
    tasks: list[SweepTaskRecord]


class RerunRecord(Record):
    """Preview of running a job again: problems that prevent it, changes since it ran, and notes."""

    possible: bool
    problems: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    notes: list[str]


class ComparisonRecord(Record):
    """Comparison of two runs. Each section has rows with ``field``, the values ``a`` and ``b``, and
    whether they are the ``same``."""

    a: dict[str, Any]
    b: dict[str, Any]
    differences: int
    sections: list[dict[str, Any]]


class Runs:
    """The part of ``client.jobs`` about runs: snapshots, files, results, sweeps."""

    _session: ApiSession

    def snapshot(self, job_id: str) -> SnapshotRecord:
        """Return the snapshot of a job: code, environment, image and datasets with which it ran."""
        return SnapshotRecord(self._session.json("GET", f"/jobs/{segment(job_id)}/snapshot"))

    def result(self, job_id: str, *, rank: int | None = None) -> bytes:
        """Return the file in which the submitted function of an ended job left what it returned or
        raised. ``client.functions.future`` loads it.

        ``rank`` is the rank whose value is wanted; None: rank 0's, or the first exception of any
        rank if the job has not completed. Raises ``NotFound`` if there is none, ``Conflict`` if the
        job has not ended or the file is too large.
        """
        path = f"/jobs/{segment(job_id)}/result"
        return self._session.read("GET", path, query={"rank": rank}, timeout_s=RESULT_S)[1]

    def files(self, job_id: str) -> WrittenFilesRecord:
        """Return the files in the job's folder that were changed while it ran. Raises ``NotFound``
        until the job has ended and they are listed."""
        return WrittenFilesRecord(self._session.json("GET", f"/jobs/{segment(job_id)}/files"))

    def results(self, job_id: str) -> ResultsRecord:
        """Return the metrics that the job's program recorded. Raises ``NotFound`` if there are none
        yet."""
        return ResultsRecord(self._session.json("GET", f"/jobs/{segment(job_id)}/results"))

    def notebook(self, job_id: str) -> bytes:
        """Return the executed copy of the notebook that the job runs; while it runs and after a
        failure, the part that was executed.

        Raises ``NotFound`` if the job runs no notebook or has not run a cell yet.
        """
        return self._session.read("GET", f"/jobs/{segment(job_id)}/notebook")[1]

    def compare(self, job_id: str, other_id: str) -> ComparisonRecord:
        """Return the differences between two jobs or array tasks, such as their job files,
        packages, resource usage and metrics.
        """
        path = f"/jobs/{segment(job_id)}/compare/{segment(other_id)}"
        return ComparisonRecord(self._session.json("GET", path))

    def plan_resubmit(self, job_id: str) -> RerunRecord:
        """Return what has changed since the job ran, and whether it can run again. Nothing is
        stored."""
        return RerunRecord(self._session.json("GET", f"/jobs/{segment(job_id)}/resubmit"))

    def sweep(self, job_id: str) -> SweepRecord:
        """Return the tasks of a sweep with their outcomes. Raises ``NotFound`` if the job is
        not a sweep."""
        return SweepRecord(self._session.json("GET", f"/jobs/{segment(job_id)}/sweep"))

    def stop_sweep(self, job_id: str) -> Job:
        """Cancel all tasks of a sweep that have not ended, except the best one so far."""
        path = f"/jobs/{segment(job_id)}/sweep/stop"
        return Job(self._session.json("POST", path, repeatable=True))

    def watch_sweep(self, job_id: str) -> Iterator[SweepRecord]:
        """Yield the sweep now, and again each time one of its tasks changes, until it has ended."""
        from aitne.client.events import events

        previous = self.sweep(job_id)
        yield previous
        if self._over(job_id):
            return
        for event in events(self._session):
            if event is None or job_id in (event.job_id, event.data.get("array_job_id")):
                sweep = self.sweep(job_id)
                if sweep != previous:
                    previous = sweep
                    yield previous
                if self._over(job_id):
                    return

    def _over(self, job_id: str) -> bool:
        return Job(self._session.json("GET", f"/jobs/{segment(job_id)}")).ended
