"""Operations on the logs of jobs: read and follow them."""

from __future__ import annotations

from aitne.client.api_session import RequestBackoff, quote_segment
from aitne.client.http_transport import SILENCE, ConnectionFailed
from aitne.client.records import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from aitne.client.api_session import ApiSession

FOLLOW_SILENCE_S = 60.0
REOPEN_S = 0.5
TAIL_BYTES = 1 << 16
"""Size in bytes of the part at the end of a log in which its last lines are searched first."""
READ_BYTES = 1 << 20


class JobLogs:
    """Operations on the logs of jobs, as methods of ``client.jobs``."""

    _session: ApiSession

    def logs(
        self, job_id: str, *, task: int | None = None, offset: int = 0, tail: int | None = None
    ) -> Iterator[bytes]:
        """Yield the log written so far in chunks of bytes: stdout and stderr merged.

        ``task`` is the index of an array job's task. Reading starts at the byte ``offset``, or
        ``tail`` bytes before the end.
        """
        path = f"/jobs/{quote_segment(job_id)}/logs"
        query = {"task": task, "tail": tail, "offset": None if tail is not None else offset}
        while True:
            headers, data = self._session.request_body("GET", path, query=query)
            if not data:
                return
            yield data
            offset = int(headers.get("x-log-offset", offset)) + len(data)
            if offset >= int(headers.get("x-log-size", 0)):
                return
            query = {"task": task, "tail": None, "offset": offset}

    def lines_offset(self, job_id: str, lines: int, *, task: int | None = None) -> int:
        """Return the byte offset at which the last ``lines`` lines of the log begin, to be passed
        to ``logs`` or ``follow_logs``."""
        path = f"/jobs/{quote_segment(job_id)}/logs"
        headers, data = self._session.request_body(
            "GET", path, query={"task": task, "tail": TAIL_BYTES}
        )
        offset = int(headers.get("x-log-offset", 0))
        if lines == 0:
            return offset + len(data)
        newlines = lines + data.endswith(b"\n")
        while (found := data.count(b"\n")) < newlines:
            newlines -= found
            size = min(offset, READ_BYTES)
            if size == 0:
                return 0
            offset -= size
            query = {"task": task, "offset": offset, "limit": size}
            data = self._session.request_body("GET", path, query=query)[1]
        position = len(data)
        for _ in range(newlines):
            position = data.rindex(b"\n", 0, position)
        return offset + position + 1

    def follow_logs(
        self, job_id: str, *, task: int | None = None, offset: int = 0, tail: int | None = None
    ) -> Iterator[bytes]:
        """Yield the log as it is written, until the job has ended and all of it was read.

        Arguments are those of ``logs``. If the platform restarts meanwhile, reading resumes at the
        same byte. If the job is restarted, its new log follows from the beginning.
        """
        attempt = self._get_job(job_id).attempt
        patience = RequestBackoff(self._session)
        while True:
            position = {"offset": offset} if tail is None else {"tail": tail}
            stream_ended = False
            try:
                reply = self._session.open_stream(
                    f"/jobs/{quote_segment(job_id)}/logs",
                    query={"task": task, "follow": True, **position},
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
                stream_ended = True
            except ConnectionFailed as failure:
                if failure.reason != SILENCE:  # a program may well be silent for long
                    patience.handle_failure(failure, repeatable=True)
            job = self._get_job(job_id)
            # The platform itself continues with the log of the next attempt, and ends the stream
            # when the platform stops: the log read so far may then be incomplete.
            restarted = job.attempt != attempt
            attempt = job.attempt
            if job.ended and (stream_ended or not restarted):
                if not restarted:
                    yield from self.logs(job_id, task=task, offset=offset)
                return
            if restarted:
                offset = 0
            self._session.sleep(REOPEN_S)

    def _get_job(self, job_id: str) -> Job:
        return Job(self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}"))
