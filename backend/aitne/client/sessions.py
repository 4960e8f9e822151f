"""Operations on sessions: start, open, extend, stop, wait until ready."""

from __future__ import annotations

from aitne.client.api_session import make_idempotency_key, quote_segment
from aitne.client.record_base import LIVE
from aitne.client.records import Job, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from aitne.client.api_session import ApiSession
    from aitne.client.jobs import Jobs


class Sessions:
    """Operations on sessions, as ``client.sessions``."""

    def __init__(self, session: ApiSession, jobs: Jobs) -> None:
        self._session = session
        self._jobs = jobs

    def start(
        self,
        template: str | None = None,
        *,
        job_file: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Job:
        """Start a session from a template. Fields of ``job_file`` override those of the template.

        If ``template`` is None, the job file alone describes the session. ``key`` is the
        Idempotency-Key; None: a new one.
        """
        body = {"type": "session", **(job_file or {})}
        if template is not None:
            body["template"] = template
        session = self._session.request_json(
            "POST", "/sessions", body=body, key=key or make_idempotency_key()
        )
        return Job(session)

    def get(self, session_id: str) -> Job:
        """Return one session. Raises ``NotFound``."""
        return Job(self._session.request_json("GET", f"/sessions/{quote_segment(session_id)}"))

    def list(self, **query: Any) -> Iterator[Job]:
        """Iterate over sessions, newest first. The arguments are those of ``client.jobs.list``."""
        return self._jobs.list(type="session", **query)

    def open(self, session_id: str, app: str | None = None) -> str:
        """Return the URL at which the session can be opened. ``app`` is one of its apps; None: the
        default one.

        Raises ``Conflict`` while the session is not ready, ``NotFound`` if it has no such app.
        """
        path = f"/sessions/{quote_segment(session_id)}/open"
        query = {} if app is None else {"app": app}
        answer = self._session.request_json("POST", path, query=query, repeatable=True)
        return str(answer["url"])

    def extend(self, session_id: str, duration: str) -> Job:
        """Extend the time limit of the session by ``duration``, such as ``"1h"`` or ``"30m"``."""
        path = f"/sessions/{quote_segment(session_id)}/extend"
        return Job(self._session.request_json("POST", path, body={"duration": duration}))

    def keep(self, session_id: str) -> Job:
        """Report that the session is in use, so that its idle time starts again from zero."""
        path = f"/sessions/{quote_segment(session_id)}/keep"
        return Job(self._session.request_json("POST", path, repeatable=True))

    def stop(self, session_id: str) -> Job:
        """Request the end of the session and return its record; it ends a moment later."""
        path = f"/sessions/{quote_segment(session_id)}/stop"
        return Job(self._session.request_json("POST", path, repeatable=True))

    def relaunch(self, session_id: str, *, key: str | None = None) -> Job:
        """Start an ended session again as a new one, with the same template, parameters and
        resources."""
        path = f"/sessions/{quote_segment(session_id)}/relaunch"
        return Job(self._session.request_json("POST", path, key=key or make_idempotency_key()))

    def resume(self, session_id: str, *, key: str | None = None) -> Job:
        """Start an ended session again as a new one, with the notebooks that were open in it.

        Raises ``Conflict`` if it has not ended, or if another session continues it already.
        """
        path = f"/sessions/{quote_segment(session_id)}/continue"
        return Job(self._session.request_json("POST", path, key=key or make_idempotency_key()))

    def plan_ranks(self, session_id: str, ranks: int, **options: Any) -> Plan:
        """Return the job that ``start_ranks`` would submit, and whether it can run; nothing is
        stored. Raises the same errors."""
        path = f"/sessions/{quote_segment(session_id)}/ranks:plan"
        body = _make_ranks_body(ranks, options)
        return Plan(self._session.request_json("POST", path, body=body, repeatable=True))

    def start_ranks(
        self, session_id: str, ranks: int, *, key: str | None = None, **options: Any
    ) -> Job:
        """Start ranks for the notebook of the user's running session: a job of its own, a rank
        group, which is returned.

        ``options`` are the other fields of the request: nodes, ranks_per_node, gpu, cpu, memory
        (the last three for each rank), max_duration, idle, slurm, python. ``key`` is the
        Idempotency-Key; None: a new one.

        Raises:
            InvalidInput: the limits do not permit the ranks, or they cannot be distributed evenly.
            Conflict: the session does not run.
            NotFound, NotAllowed: the session does not exist, or belongs to another user.
        """
        path = f"/sessions/{quote_segment(session_id)}/ranks"
        body = _make_ranks_body(ranks, options)
        return Job(
            self._session.request_json("POST", path, body=body, key=key or make_idempotency_key())
        )

    def ranks(self, session_id: str, *, live: bool = False) -> Iterator[Job]:
        """Iterate over the rank groups of a session, newest first; ``live`` omits those that have
        ended."""
        path = f"/sessions/{quote_segment(session_id)}/ranks"
        return map(Job, self._session.list_pages(path, {"state": LIVE if live else ()}))

    def release_ranks(self, session_id: str, group_id: str | None = None) -> Sequence[Job]:
        """Request the end of a rank group of the user's session, or of all its rank groups if
        ``group_id`` is None, and return them. The session continues."""
        path = f"/sessions/{quote_segment(session_id)}/ranks"
        if group_id is not None:
            path = f"{path}/{quote_segment(group_id)}"
        answer = self._session.request_json("POST", f"{path}/release", repeatable=True)
        return [Job(group) for group in ([answer] if group_id is not None else answer["items"])]

    def wait_ready(self, session_id: str, *, timeout_s: float | None = None) -> Job:
        """Wait until the session is ready, and return its record. ``timeout_s`` None: without
        limit.

        Raises:
            JobEnded: the session ended before it was ready; the message gives the reason.
            WaitTimeout: the session was not ready within ``timeout_s`` seconds.
        """
        job = self._jobs.wait(
            session_id, until=lambda job: job.state == "READY", timeout_s=timeout_s
        )
        if job.ended:
            from aitne.client.errors import JobEnded

            raise JobEnded(job.message or f"The session is {job.state}: {job.reason}.", job)
        return job


def _make_ranks_body(ranks: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for ranks, without the options that are None."""
    chosen = {name: value for name, value in options.items() if value is not None}
    return {"ranks": ranks, **chosen}
