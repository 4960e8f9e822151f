"""Jobs: plan, create, look, list, cancel, read the log, wait."""

from __future__ import annotations

from aitne.client.events import events
from aitne.client.http import SILENCE, ConnectionFailed
from aitne.client.records import Event, Job, Plan, QueuePlace
from aitne.client.session import Patience, new_key, segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from aitne.client.session import Session

FOLLOW_SILENCE_S = 60.0
REOPEN_S = 0.5


class Jobs:
    """``client.jobs``. Sessions are jobs too: what is said of a job here holds for them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def plan(self, job_file: Mapping[str, Any]) -> Plan:
        """What the job file would become; nothing is stored. Raises ``InvalidInput``."""
        return Plan(self._session.json("POST", "/jobs:plan", body=job_file, repeatable=True))

    def create(self, job_file: Mapping[str, Any], *, key: str | None = None) -> Job:
        """Submit a job file. ``key`` makes the same request give the same job, however often."""
        return self._create("/jobs", job_file, key)

    def resubmit(self, job_id: str, *, key: str | None = None) -> Job:
        """The same once more, as a new job."""
        return self._create(f"/jobs/{segment(job_id)}/resubmit", None, key)

    def get(self, job_id: str) -> Job:
        """One job. Raises ``NotFound``."""
        return Job(self._session.json("GET", f"/jobs/{segment(job_id)}"))

    def queue_place(self, job_id: str) -> QueuePlace | None:
        """Where a job that waits stands in line; None: it does not wait, or nobody can tell."""
        found = self._session.json("GET", f"/jobs/{segment(job_id)}/queue")["place"]
        return None if found is None else QueuePlace(found)

    def list(
        self,
        *,
        states: Sequence[str] = (),
        type: str | None = None,  # noqa: A002 - the field's name
        owner: str | None = None,
        project: str | None = None,
        search: str | None = None,
        array_job_id: str | None = None,
        top_level: bool = False,
        most: int | None = None,
    ) -> Iterator[Job]:
        """Jobs, newest first, fetched page by page as they are asked for."""
        query = {
            "state": states,
            "type": type,
            "owner": owner,
            "project": project,
            "q": search,
            "array_job_id": array_job_id,
            "top_level": top_level,
        }
        return map(Job, self._session.pages("/jobs", query, most=most))

    def cancel(self, job_id: str) -> Job:
        """Ask for its end; it may take a moment. A job that has ended stays as it is."""
        path = f"/jobs/{segment(job_id)}/cancel"
        return Job(self._session.json("POST", path, repeatable=True))

    def script(self, job_id: str) -> str:
        """The exact batch script."""
        return self._session.read("GET", f"/jobs/{segment(job_id)}/script")[1].decode()

    def events(self, job_id: str) -> Sequence[Event]:
        """The job's own history, oldest first."""
        found = self._session.json("GET", f"/jobs/{segment(job_id)}/events")
        return [Event(item) for item in found["items"]]

    def metrics(self, job_id: str) -> dict[str, Any]:
        """Measurements of the job's processes, and their summary."""
        found: dict[str, Any] = self._session.json("GET", f"/jobs/{segment(job_id)}/metrics")
        return found

    def logs(
        self, job_id: str, *, task: int | None = None, offset: int = 0, tail: int | None = None
    ) -> Iterator[bytes]:
        """The log so far: stdout and stderr merged, as the program wrote them.

        ``tail`` starts so many bytes before the end.
        """
        path = f"/jobs/{segment(job_id)}/logs"
        query = {"task": task, "tail": tail, "offset": None if tail is not None else offset}
        while True:
            headers, data = self._session.read("GET", path, query=query)
            if not data:
                return
            yield data
            offset = int(headers.get("x-log-offset", offset)) + len(data)
            if offset >= int(headers.get("x-log-size", 0)):
                return
            query = {"task": task, "tail": None, "offset": offset}

    def follow_logs(
        self, job_id: str, *, task: int | None = None, offset: int = 0, tail: int | None = None
    ) -> Iterator[bytes]:
        """The log, as it is written, until the job has ended and all of it was read.

        A platform that restarts meanwhile is waited for, and reading goes on at the same byte. A
        job that is started anew has a new log; that follows from its beginning.
        """
        attempt = self.get(job_id).attempt
        patience = Patience(self._session)
        while True:
            where = {"offset": offset} if tail is None else {"tail": tail}
            whole = False
            try:
                reply = self._session.stream(
                    f"/jobs/{segment(job_id)}/logs",
                    query={"task": task, "follow": True, **where},
                    timeout_s=FOLLOW_SILENCE_S,
                )
                offset, tail = int(reply.headers.get("x-log-offset", offset)), None
                try:
                    for chunk in reply.chunks():
                        patience.reset()
                        offset += len(chunk)
                        yield chunk
                finally:
                    reply.close()
                whole = True
            except ConnectionFailed as failure:
                if failure.reason != SILENCE:  # a program may well be silent for long
                    patience.after(failure, repeatable=True)
            job = self.get(job_id)
            # The platform itself goes over to the log of a further attempt, and ends the stream
            # when it stops: what was read then may not be all.
            anew = job.attempt != attempt
            attempt = job.attempt
            if job.ended and (whole or not anew):
                if not anew:
                    yield from self.logs(job_id, task=task, offset=offset)
                return
            if anew:
                offset = 0
            self._session.sleep(REOPEN_S)

    def watch(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[Job]:
        """The job now, and again each time it changes, until it has ended.

        Raises:
            WaitTimeout: it has not ended within ``timeout_s``.
        """
        job = self.get(job_id)
        yield job
        if job.ended:
            return
        deadline = None if timeout_s is None else self._session.clock() + timeout_s
        for event in events(self._session):
            if event is None or event.job_id == job_id:
                seen, job = job.version, self.get(job_id)
                if job.version != seen:
                    yield job
                if job.ended:
                    return
            if deadline is not None and self._session.clock() > deadline:
                from aitne.client.errors import WaitTimeout

                raise WaitTimeout(f"{job.name} is {job.state} after {timeout_s:g} s. It goes on.")

    def wait(
        self,
        job_id: str,
        *,
        until: Callable[[Job], bool] = lambda job: job.ended,
        timeout_s: float | None = None,
    ) -> Job:
        """Wait until ``until`` says so, or the job has ended; the job as it is then."""
        seen = self.watch(job_id, timeout_s=timeout_s)
        job = next(seen)
        while not (until(job) or job.ended):
            job = next(seen)
        return job

    def _create(self, path: str, body: object, key: str | None) -> Job:
        return Job(self._session.json("POST", path, body=body, key=key or new_key()))
