"""Detection of the end of jobs, with one event stream for all watched jobs."""

from __future__ import annotations

import logging
import threading

from aitne.client.api_session import quote_segment
from aitne.client.events import follow_events
from aitne.client.record_base import TERMINAL
from aitne.client.records import Job
from aitne.core.errors import AitneError, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aitne.client.api_session import ApiSession
    from aitne.client.records import Event

    Ended = Callable[[Job | AitneError], None]

LATER_S = 20.0
"""Seconds after which a job is read again: until then the platform has started it again if its
retry policy permits that."""
log = logging.getLogger("aitne")


class JobWatcher:
    """Thread that follows the user's event stream while jobs are watched, and calls a function when
    a watched job ends. Callbacks run in this thread, or in the thread that calls ``watch``.
    """

    def __init__(self, session: ApiSession) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._jobs: dict[str, list[Ended]] = {}
        """Callbacks by the id of the job."""
        self._arrays: dict[str, set[str]] = {}
        """Ids of the watched tasks by the id of their array job."""
        self._later: dict[str, float] = {}
        """Jobs that are to be read again, with the time since when: jobs that have ended and that
        the platform may start again, and jobs that could not be read."""
        self._thread: threading.Thread | None = None
        self._streams = False

    def watch(
        self, job_ids: Iterable[str], callbacks: Iterable[Ended], array: str | None = None
    ) -> None:
        """Watch jobs, or tasks of the array job with the id ``array``, and call each function of
        ``callbacks`` once: with the record of the ended job, or with the error for which the job can
        no longer be watched.
        """
        ids = list(job_ids)
        with self._lock:
            for job_id, callback in zip(ids, callbacks, strict=True):
                self._jobs.setdefault(job_id, []).append(callback)
            if array is not None:
                self._arrays.setdefault(array, set()).update(ids)
            streams = self._streams
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="aitne-jobs", daemon=True)
                self._thread.start()
        if not streams:
            return  # all watched jobs are read once the stream is open
        try:
            self._check_many([] if array is not None else ids, [] if array is None else [array])
        except Unavailable:
            for job_id in ids:
                self._later.setdefault(job_id, self._session.clock())

    def _run(self) -> None:
        warned = False
        while True:
            try:
                for event in follow_events(self._session, until=self._check_postponed):
                    warned = False
                    if event is None:
                        with self._lock:
                            self._streams = True
                            arrays = list(self._arrays)
                            grouped = {task for tasks in self._arrays.values() for task in tasks}
                            singles = [job_id for job_id in self._jobs if job_id not in grouped]
                        self._check_many(singles, arrays)
                    else:
                        self._handle_event(event)
                return
            except Unavailable as error:
                if not warned:
                    log.warning("%s Waiting for jobs continues.", error.message)
                warned = True
            except AitneError as error:
                self._finish_all(error)
                return
            except Exception as error:
                self._finish_all(AitneError(f"Jobs can no longer be watched: {error!r}."))
                raise

    def _check_postponed(self) -> bool:
        """Read ended jobs again that may have been retried meanwhile. Return True if no job is
        watched any more, so that the stream and the thread can end.
        """
        now = self._session.clock()
        late = [job_id for job_id, at in list(self._later.items()) if now - at > LATER_S]
        for job_id in late:
            self._check_job(job_id, final=True)
        with self._lock:
            if self._jobs:
                return False
            self._thread, self._streams = None, False
            return True

    def _handle_event(self, event: Event) -> None:
        job_id, state = event.job_id, event.data.get("state")
        if job_id is None or not event.kind.startswith("job."):
            return
        if event.kind == "job.state" and state not in TERMINAL:
            return
        if "task_group" in event.data:
            array = str(event.data.get("array_job_id"))
            if array in self._arrays:
                self._check_many([], [array])
        elif job_id in self._jobs:
            self._check_job(job_id)

    def _check_many(self, job_ids: Iterable[str], arrays: Iterable[str]) -> None:
        """Read the records of jobs, and of all tasks of array jobs."""
        for job_id in job_ids:
            self._check_job(job_id)
        for array in arrays:
            query = {"array_job_id": array, "sort": "created", "order": "asc"}
            for record in self._session.list_pages("/jobs", query):
                job = Job(record)
                if job.id in self._jobs:
                    self._finish_if_ended(job)

    def _check_job(self, job_id: str, *, final: bool = False) -> None:
        try:
            job = Job(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}"))
        except Unavailable:
            raise
        except AitneError as error:
            self._finish_job(job_id, error)
        else:
            self._finish_if_ended(job, final=final)

    def _finish_if_ended(self, job: Job, *, final: bool = False) -> None:
        if not job.ended:
            self._later.pop(job.id, None)
        elif final or not may_be_retried(job):
            self._finish_job(job.id, job)
        else:
            self._later.setdefault(job.id, self._session.clock())

    def _finish_job(self, job_id: str, outcome: Job | AitneError) -> None:
        self._later.pop(job_id, None)
        with self._lock:
            callbacks = self._jobs.pop(job_id, [])
            for array, tasks in list(self._arrays.items()):
                tasks.discard(job_id)
                if not tasks:
                    del self._arrays[array]
        for ended in callbacks:
            ended(outcome)

    def _finish_all(self, error: AitneError) -> None:
        with self._lock:
            self._thread, self._streams = None, False
            ids = list(self._jobs)
        for job_id in ids:
            self._finish_job(job_id, error)


def may_be_retried(job: Job) -> bool:
    """Return whether the retry policy of an ended job permits another attempt."""
    policy = job.retry
    permitted = job.attempt <= int(policy.get("max") or 0) and job.reason in policy.get("on", ())
    return permitted and not job.cancel_requested
