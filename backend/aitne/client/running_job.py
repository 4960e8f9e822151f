"""Facts about the job in which a program runs, and messages to the job's owner.

The files of the job folder have the platform's address and the job token, so no other credential
is needed.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from uuid import UUID

from aitne.client.http_transport import ConnectionFailed, HttpTransport
from aitne.core.errors import Conflict, InvalidInput, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_MESSAGE = 1_000
"""Maximum number of characters in a message to the owner."""
ASK_EVERY_S = 60.0
TIMEOUT_S = 10.0
_asked: dict[str, tuple[float, datetime | None]] = {}
"""Cached ends of time limits by job ID: pairs of the query time (monotonic clock) and the end."""


class RunningJob:
    """Job in which this program runs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read the variables that the platform sets in a job. Raises ``InvalidInput`` outside of
        jobs."""
        try:
            run_id, self.folder = environ["AITNE_JOB_ID"], environ["AITNE_JOB_DIR"]
        except KeyError:
            raise InvalidInput(
                "This program does not run in a job of the platform, so there is no job to tell of."
            ) from None
        task = environ.get("SLURM_ARRAY_TASK_ID", "")
        self.task = int(task) if task.isdecimal() else None
        """Index of the array's task; None: the job is not an array."""
        self.array_id = None if self.task is None else run_id
        """Id of the array job; None: the job is not an array."""
        # The id of a task is its array job's plus its index plus one (core.jobs.array_tasks).
        self.id = run_id if self.task is None else str(UUID(int=UUID(run_id).int + self.task + 1))
        self.project = environ.get("AITNE_PROJECT", "")
        self.attempt = int(environ.get("AITNE_ATTEMPT") or 1)
        self.nodes = int(environ.get("AITNE_NODES") or 1)
        self.node_rank = int(environ.get("AITNE_NODE_RANK") or 0)
        self.gpus_per_node = int(environ.get("AITNE_GPUS_PER_NODE") or 0)
        self.ranks = int(environ.get("WORLD_SIZE") or 1)
        """Number of ranks of the program."""
        self.rank = int(environ.get("RANK") or 0)
        self.local_rank = int(environ.get("LOCAL_RANK") or 0)
        self._end = environ.get("SLURM_JOB_END_TIME", "")

    def __repr__(self) -> str:
        return f"<RunningJob {self.id}: rank {self.rank} of {self.ranks}, nodes {self.nodes}>"

    @property
    def expires_at(self) -> datetime | None:
        """Time at which the job reaches its time limit; None: unknown. The time limit can be
        extended while the job runs. The value is cached for a minute.
        """
        cached = _asked.get(self.id)
        if cached is None or time.monotonic() - cached[0] > ASK_EVERY_S:
            cached = _asked[self.id] = (time.monotonic(), self._query_end())
        return cached[1]

    @property
    def time_left_s(self) -> float | None:
        """Number of seconds until the job reaches its time limit, at least 0; None: unknown."""
        end = self.expires_at
        return None if end is None else max(0.0, (end - datetime.now(UTC)).total_seconds())

    def _query_end(self) -> datetime | None:
        query = "" if self.task is None else f"?task={self.task}"
        try:
            answer = _send_request(self, "GET", f"status{query}")
            end = json.loads(answer)["expires_at"]
        except (Unavailable, Conflict):
            end = None
        if end is not None:
            return datetime.fromisoformat(end)
        return datetime.fromtimestamp(int(self._end), UTC) if self._end.isdecimal() else None


def job() -> RunningJob:
    """Return the job in which this program runs: its ID, nodes and ranks, the rank of this process,
    and the remaining time. Raises ``InvalidInput`` if the program does not run in a job.
    """
    return RunningJob(os.environ)


def notify(text: str) -> None:
    """Send a notification to the owner of the job in which this program runs. The owner's settings
    determine whether it is sent by mail or to webhooks.

    Raises:
        InvalidInput: the program does not run in a job, or the text is empty or has more than 1,000
            characters.
        Conflict: the platform rejects the message, for example because the job has sent too many.
        Unavailable: the platform does not answer.
    """
    if not text.strip() or len(text) > MAX_MESSAGE:
        raise InvalidInput(
            f"A message has 1 to {MAX_MESSAGE:,} characters; this one has {len(text):,}."
        )
    running = job()
    _send_request(running, "POST", "message", {"text": text, "task": running.task})


def _send_request(
    job: RunningJob, method: str, endpoint: str, body: Mapping[str, Any] | None = None
) -> bytes:
    """Send a request with the job token and return the answer. Raises ``Conflict`` and
    ``Unavailable``."""
    try:
        with open(f"{job.folder}/agent.json", encoding="utf-8") as file:
            agent_spec = json.load(file)
        with open(f"{job.folder}/token", encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, ValueError) as error:
        raise Conflict(f"The files of the job in {job.folder} cannot be read: {error}.") from error
    url = agent_spec.get("platform_url")
    if not url:
        raise Conflict("The platform has no address that jobs reach.")
    transport = HttpTransport(url, authority=agent_spec.get("authority"))
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    path = f"/agent/v1/jobs/{job.array_id or job.id}/{endpoint}"
    try:
        reply = transport.send(method, path, headers=headers, body=data, timeout_s=TIMEOUT_S)
        try:
            answer = b"".join(reply.chunks())
        finally:
            reply.close()
    except ConnectionFailed as error:
        raise Unavailable(f"The platform does not answer: {error.reason}.") from error
    if reply.status >= 400:
        from aitne.client.errors import make_error_from_problem

        problem = make_error_from_problem(reply.status, reply.headers, answer)
        raise (problem if isinstance(problem, Unavailable) else Conflict(problem.message))
    return answer
