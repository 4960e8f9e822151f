"""Operations on jobs: plan, create, list, cancel, wait."""

from __future__ import annotations

import builtins
import json

from aitne.client.api_session import make_idempotency_key, quote_segment
from aitne.client.deprecated_names import resolve_deprecated_limit, warn_renamed
from aitne.client.events import follow_events
from aitne.client.job_files import FilesOfJobs
from aitne.client.job_logs import JobLogs
from aitne.client.job_runs import Runs
from aitne.client.record_base import LIVE
from aitne.client.records import AdviceRecord, Event, FailureRecord, Job, Plan, QueuePositionRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from aitne.client.api_session import ApiSession
    from aitne.client.terminal_connection import TerminalConnection
    from aitne.core.errors import AitneError

FILES_AT_ONCE = 100
BYTES_AT_ONCE = 900_000
"""Maximum number of job files, and maximum total size in bytes, in one request."""


class Jobs(Runs, FilesOfJobs, JobLogs):
    """Operations on jobs, as ``client.jobs``. Sessions are jobs too: all of these methods accept
    them."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def plan(self, job_file: Mapping[str, Any]) -> Plan:
        """Return the job that a job file would create, and whether it can run; nothing is stored.
        Raises ``InvalidInput``."""
        return Plan(
            self._session.request_json("POST", "/jobs:plan", body=job_file, repeatable=True)
        )

    def create(
        self,
        job_file: Mapping[str, Any],
        *,
        key: str | None = None,
        sync: str | os.PathLike[str] | None = None,
    ) -> Job:
        """Submit a job file and return the job.

        Repeated requests with the same ``key`` (Idempotency-Key) create one job. ``sync`` is a
        folder whose files are uploaded first; the job runs in a copy of them. Raises the errors of
        ``client.trees.upload`` too.
        """
        if sync is not None:
            from aitne.client.tree_upload import Trees

            job_file = {**job_file, "tree": Trees(self._session).upload(sync).digest}
        return self._create("/jobs", job_file, key)

    def submit_many(
        self, job_files: Iterable[Mapping[str, Any]], *, key: str | None = None
    ) -> builtins.list[Job | AitneError]:
        """Submit several job files and return for each the job, or the error for which it was
        rejected.

        Many are sent in one request. Repeated calls with the same ``key`` and job files create each
        job once.
        """
        results: builtins.list[Job | AitneError] = []
        for number, files in enumerate(_divide_job_files(job_files)):
            name = f"{key}-{number}" if key is not None else make_idempotency_key()
            answer = self._session.request_json(
                "POST", "/jobs:batch", body={"items": files}, key=name
            )
            results += map(_to_job_or_error, answer["items"])
        return results

    def resubmit(
        self,
        job_id: str,
        *,
        memory: str | None = None,
        max_duration: str | None = None,
        key: str | None = None,
    ) -> Job:
        """Submit the same job again as a new job. ``memory`` (such as ``"16G"``) and
        ``max_duration`` (such as ``"4h"``) replace those of the job; None: unchanged."""
        options = {"memory": memory, "max_duration": max_duration}
        changes = {name: value for name, value in options.items() if value is not None}
        return self._create(f"/jobs/{quote_segment(job_id)}/resubmit", changes or None, key)

    def get(self, job_id: str) -> Job:
        """Return one job. Raises ``NotFound``."""
        return self._get_job(job_id)

    def attach(
        self,
        job_id: str,
        argv: Sequence[str] = (),
        *,
        node: str | None = None,
        tty: bool = False,
        rows: int = 24,
        cols: int = 80,
        term: str = "xterm-256color",
    ) -> TerminalConnection:
        """Start a program in the user's running job, or a shell if ``argv`` is empty, and return
        the connection.

        It runs on the first node of the job, or on ``node``, with the job's environment variables.
        It ends with the job or when the connection is closed. ``tty`` gives it a terminal of
        ``rows`` and ``cols``.

            with client.jobs.attach(job.id, ["nvidia-smi"]) as terminal:
                for _, piece in terminal.read():
                    print(piece.decode(), end="")
                print(terminal.exit_code)

        Raises:
            NotFound, NotAllowed: the job does not exist, or belongs to another user.
            Conflict: the job does not run.
            Unreachable: the platform does not answer.
        """
        from aitne.client.terminal_connection import attach_program

        return attach_program(
            self._session, job_id, argv, node=node, tty=tty, rows=rows, cols=cols, term=term
        )

    def attach_ssh(
        self, job_id: str, public_key: str, *, node: str | None = None
    ) -> TerminalConnection:
        """Start an SSH server for one connection in the user's running job. It accepts only the key
        ``public_key``.

        Raises the errors of ``attach``; ``Conflict`` also if the node has no OpenSSH server.
        """
        from aitne.client.terminal_connection import attach_ssh

        return attach_ssh(self._session, job_id, public_key, node=node)

    def ssh_account(self) -> str:
        """Return the Unix user name with which ssh connects to the user's jobs."""
        return str(self._session.request_json("GET", "/ssh")["account"])

    def queue_position(self, job_id: str) -> QueuePositionRecord | None:
        """Return the position of a pending job in the queue; None if it is not pending or its
        position is unknown."""
        position = self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/queue")[
            "position"
        ]
        return None if position is None else QueuePositionRecord(position)

    def queue_place(self, job_id: str) -> QueuePositionRecord | None:
        """Return the position of a pending job in the queue. Deprecated alias of
        ``queue_position``."""
        warn_renamed("jobs.queue_place", "jobs.queue_position")
        return self.queue_position(job_id)

    def advice(self, job_id: str) -> builtins.list[AdviceRecord]:
        """Return advice on how a pending job could start earlier; often empty."""
        items = self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/queue")["advice"]
        return [AdviceRecord(advice) for advice in items]

    def failure(self, job_id: str) -> FailureRecord | None:
        """Return why a job failed, with the line of its log that shows the cause and remedies; None
        if it has not failed."""
        failure = self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/failure")[
            "failure"
        ]
        return None if failure is None else FailureRecord(failure)

    def list(
        self,
        *,
        states: Sequence[str] = (),
        live: bool = False,
        type: str | None = None,  # noqa: A002 - the field's name
        owner: str | None = None,
        project: str | None = None,
        search: str | None = None,
        array_job_id: str | None = None,
        top_level: bool = False,
        limit: int | None = None,
        sort: str | None = None,
        ascending: bool = False,
        **where: str | int | bool | None,
    ) -> Iterator[Job]:
        """Iterate over jobs, newest first unless sorted otherwise; pages are fetched as needed.

        ``live`` omits jobs that have ended, ``top_level`` omits the tasks of array jobs. ``sort``
        is one of created, started, ended, duration, name, owner, project, state, gpus. ``where``
        has the other filters of ``GET /jobs``: template, image, node, partition, active_at,
        created_from, created_before, min_gpus, gpu_type, array, origin. ``limit`` is the maximum
        number of jobs; ``most`` is its deprecated alias.
        """
        limit = resolve_deprecated_limit(limit, where.pop("most", None))
        query = {
            "state": states or (LIVE if live else ()),
            "type": type,
            "owner": owner,
            "project": project,
            "q": search,
            "array_job_id": array_job_id,
            "top_level": top_level,
            "sort": sort,
            "order": "asc" if ascending else None,
            **{name: _to_query_value(value) for name, value in where.items()},
        }
        return map(Job, self._session.list_pages("/jobs", query, limit=limit))

    def count(self, **where: Any) -> dict[str, Any]:
        """Return the number of jobs in each state. ``where`` has filters of ``GET /jobs``."""
        query = {name: _to_query_value(value) for name, value in where.items()}
        counts: dict[str, Any] = self._session.request_json("GET", "/jobs:count", query=query)
        return counts

    def cancel_many(self, job_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        """Request cancellation of up to 1,000 jobs and return the outcome for each."""
        body = {"ids": [*job_ids]}
        return self._cancel_jobs(body)

    def cancel_all(self, *, expected: int, **where: Any) -> Sequence[dict[str, Any]]:
        """Request cancellation of all unfinished jobs that match the filters ``where``, and return
        the outcome for each.

        ``expected`` is the number of jobs that should match. Raises ``Conflict`` if another number
        does; then no job is cancelled.
        """
        return self._cancel_jobs({"filter": where, "expected": expected})

    def file(self, job_id: str) -> str:
        """Return the job file, as YAML text, that would create the same job again."""
        return str(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/file")["yaml"])

    def import_sbatch(self, script: str) -> dict[str, Any]:
        """Convert a batch script for sbatch to a job file.

        The result has the job file as text (``yaml``) and as an object (``file``), and ``notes`` on
        lines that were not converted.
        """
        conversion: dict[str, Any] = self._session.request_json(
            "POST", "/jobs:import", body={"script": script}, repeatable=True
        )
        return conversion

    def _cancel_jobs(self, body: dict[str, Any]) -> Sequence[dict[str, Any]]:
        outcomes: Sequence[dict[str, Any]] = self._session.request_json(
            "POST", "/jobs:cancel", body=body, repeatable=True
        )["items"]
        return outcomes

    def cancel(self, job_id: str) -> Job:
        """Request cancellation of a job and return its record; the job ends a moment later. A job
        that has ended does not change."""
        path = f"/jobs/{quote_segment(job_id)}/cancel"
        return Job(self._session.request_json("POST", path, repeatable=True))

    def delete(self, job_id: str) -> Job:
        """Delete a job that has ended, with its log, metrics and job folder. It remains visible
        until its folder is removed.

        Raises ``Conflict`` if it has not ended, is a task of an array job, or another job depends
        on it.
        """
        return Job(
            self._session.request_json("DELETE", f"/jobs/{quote_segment(job_id)}", repeatable=True)
        )

    def delete_many(self, job_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        """Delete up to 1,000 jobs that have ended and return the outcome for each."""
        return self._delete_jobs({"ids": [*job_ids]})

    def delete_all(self, *, expected: int, **where: Any) -> Sequence[dict[str, Any]]:
        """Delete all ended jobs that match the filters ``where``, and return the outcome for each.

        ``expected`` is the number of jobs that should match. Raises ``Conflict`` if another number
        does; then no job is deleted.
        """
        return self._delete_jobs({"filter": where, "expected": expected})

    def _delete_jobs(self, body: dict[str, Any]) -> Sequence[dict[str, Any]]:
        outcomes: Sequence[dict[str, Any]] = self._session.request_json(
            "POST", "/jobs:delete", body=body, repeatable=True
        )["items"]
        return outcomes

    def extend(self, job_id: str, duration: str) -> Job:
        """Extend the time limit of a running job or session by ``duration``, such as ``"1h"`` or
        ``"30m"``."""
        path = f"/jobs/{quote_segment(job_id)}/extend"
        return Job(self._session.request_json("POST", path, body={"duration": duration}))

    def hold(self, job_id: str) -> Job:
        """Hold a pending job, or the pending tasks of an array job, until it is released.

        Raises ``Conflict`` if neither the job nor one of its tasks is pending.
        """
        return Job(
            self._session.request_json(
                "POST", f"/jobs/{quote_segment(job_id)}/hold", repeatable=True
            )
        )

    def release(self, job_id: str) -> Job:
        """Release a held job, or the held tasks of an array job. Raises ``Conflict`` as
        ``hold``."""
        return Job(
            self._session.request_json(
                "POST", f"/jobs/{quote_segment(job_id)}/release", repeatable=True
            )
        )

    def throttle(self, job_id: str, max_parallel: int | None) -> Job:
        """Set how many tasks of an array job may run at once; None: no limit. Running tasks
        continue."""
        path, body = f"/jobs/{quote_segment(job_id)}", {"max_parallel": max_parallel}
        return Job(self._session.request_json("PATCH", path, body=body, repeatable=True))

    def script(self, job_id: str) -> str:
        """Return the batch script of the job exactly as it was submitted to the scheduler."""
        return self._session.request_body("GET", f"/jobs/{quote_segment(job_id)}/script")[
            1
        ].decode()

    def events(self, job_id: str) -> Sequence[Event]:
        """Return the history of the job, oldest first."""
        items = self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/events")["items"]
        return [Event(item) for item in items]

    def metrics(self, job_id: str) -> dict[str, Any]:
        """Return measurements of the resources that the job's processes used, and a summary."""
        return dict(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/metrics"))

    def placement(self, job_id: str) -> dict[str, Any]:
        """Return the order of the job's nodes, its costs and the bindings of its ranks."""
        return dict(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/placement"))

    def profile(self, job_id: str) -> dict[str, Any]:
        """Return the latest profile of the collectives of a distributed job, as a dictionary.

        Raises ``NotFound`` until the job's ranks have reported one.
        """
        return dict(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/profile"))

    def watch(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[Job]:
        """Yield the record of a job now, and again each time it changes, until it has ended.

        Raises:
            WaitTimeout: the job has not ended within ``timeout_s`` seconds; None: no limit.
        """
        job = self.get(job_id)
        yield job
        if job.ended:
            return
        deadline = None if timeout_s is None else self._session.clock() + timeout_s
        for event in follow_events(self._session):
            if event is None or _is_relevant(event, job):
                version, job = job.version, self.get(job_id)
                if job.version != version:
                    yield job
                if job.ended:
                    return
            if deadline is not None and self._session.clock() > deadline:
                from aitne.client.errors import WaitTimeout

                raise WaitTimeout(f"{job.name} is {job.state} after {timeout_s:g} s. It continues.")

    def wait(
        self,
        job_id: str,
        *,
        until: Callable[[Job], bool] = lambda job: job.ended,
        timeout_s: float | None = None,
    ) -> Job:
        """Wait until ``until`` returns True for the job's record or the job has ended, and return
        the record.

        Raises:
            WaitTimeout: neither happened within ``timeout_s`` seconds; None: no limit.
        """
        records = self.watch(job_id, timeout_s=timeout_s)
        job = next(records)
        while not (until(job) or job.ended):
            job = next(records)
        return job

    def _create(self, path: str, body: object, key: str | None) -> Job:
        return Job(
            self._session.request_json("POST", path, body=body, key=key or make_idempotency_key())
        )


def _divide_job_files(job_files: Iterable[Mapping[str, Any]]) -> Iterator[builtins.list[object]]:
    """Divide job files into lists that fit into one request each."""
    files: builtins.list[object] = []
    size = 0
    for file in job_files:
        length = len(json.dumps(file))
        if files and (len(files) == FILES_AT_ONCE or size + length > BYTES_AT_ONCE):
            yield files
            files, size = [], 0
        files.append(file)
        size += length
    if files:
        yield files


def _to_job_or_error(item: Mapping[str, Any]) -> Job | AitneError:
    problem = item["problem"]
    if problem is None:
        return Job(item["job"])
    from aitne.client.errors import make_error_from_problem

    return make_error_from_problem(problem["status"], {}, json.dumps(problem).encode())


def _is_relevant(event: Event, job: Job) -> bool:
    """Return whether an event may concern the job. An event about several tasks of an array job
    names only the array job."""
    tasks = "task_group" in event.data and event.data["array_job_id"] == job.array_job_id
    return tasks or event.job_id == job.id


def _to_query_value(value: Any) -> Any:
    """Return a value for a query; False as text, because False itself omits the parameter."""
    return "false" if value is False else value
