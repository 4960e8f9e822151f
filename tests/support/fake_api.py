"""A scripted API that records requests and sends prepared answers.

``FakeApi`` is a client's ``RequestTransport``; ``serve`` puts the same answers behind a real socket.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aitne.client.http_transport import ConnectionFailed
from aitne.client.transport import Reply

JOB_ID = "3b7a1f00-0000-4000-8000-000000000001"
TOO_MANY_CPUS: dict[str, Any] = {
    "status": 422,
    "code": "invalid_input",
    "detail": "resources.cpu: too many",
    "problems": [
        {"field": "resources.cpu", "message": "too many", "value": "9", "allowed": "1 to 2"}
    ],
}
"""The problem of a job file that is refused."""
USAGE_MONTH = {
    "month": "2026-03",
    "starts_at": "2026-03-01T00:00:00Z",
    "ends_at": "2026-04-01T00:00:00Z",
    "as_of": "2026-03-05T10:00:00Z",
}
USAGE_ROW = {
    "project": "vision",
    "user": "ada",
    "jobs": 2,
    "cpu_hours": 1.5,
    "gpu_hours": 3.25,
    "gpu_hours_by_type": {"h200": 3.25},
    "energy_j": 7_200_000,
}


@dataclass
class Request:
    """A request of a client, with its body parsed from JSON."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    json: Any


@dataclass
class Answer:
    """An answer: its chunks in order, followed by a broken connection if `cut`."""

    status: int = 200
    chunks: Iterable[bytes] = ()
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class Refused:
    """The connection is refused, as without a listener."""


class ConnectionLost:
    """The request arrives, and the connection breaks before an answer."""


CannedAnswer = dict[str, Any] | list[Any] | bytes | Answer | type[Refused] | type[ConnectionLost]


def problem(status: int, code: str, detail: str, *problems: Mapping[str, Any]) -> Answer:
    """Return a problem document as the API writes it."""
    document = {
        "type": f"urn:aitne:problem:{code}",
        "title": "Problem",
        "status": status,
        "detail": detail,
        "instance": "/api/v1/jobs",
        "code": code,
        "problems": list(problems),
    }
    return Answer(
        status, [json.dumps(document).encode()], {"Content-Type": "application/problem+json"}
    )


def sse(*events: Mapping[str, Any], cut: bool = False) -> Answer:
    """Return an event stream: a greeting, these events, and the end."""
    lines = ['id: 7\nevent: hello\ndata: {"last_event_id": 7}\n\n', ": still here\n\n"]
    lines += [f"id: {e['id']}\nevent: {e['kind']}\ndata: {json.dumps(e)}\n\n" for e in events]
    return Answer(200, [line.encode() for line in lines], cut=cut)


def event(number: int, job_id: str = JOB_ID, kind: str = "job.state") -> dict[str, Any]:
    """Return one row of the event feed."""
    return {
        "id": number,
        "time": "2026-11-21T04:00:00Z",
        "kind": kind,
        "job_id": job_id,
        "owner": "ada",
        "project": "ada",
        "data": {},
    }


def job(state: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    """Return a job as the API presents it."""
    return {
        "id": JOB_ID,
        "type": "job",
        "name": "digits",
        "owner": "ada",
        "project": "ada",
        "cluster": "local",
        "template": None,
        "template_version": None,
        "parameters": {},
        "image": "bare",
        "commands": ["python train.py"],
        "env": {},
        "workdir": None,
        "resources": {
            "nodes": 1,
            "cpu": 2,
            "memory_bytes": 4 << 30,
            "gpu": {"count": 0, "type": None},
        },
        "max_duration_s": 3600,
        "array": None,
        "after": [],
        "retry": {"max": 0, "on": []},
        "state": state,
        "reason": None,
        "message": None,
        "attempt": 1,
        "restart_count": 0,
        "exit_code": None,
        "signal": None,
        "nodes": ["node01"],
        "array_job_id": None,
        "array_task_id": None,
        "scheduler_id": "1",
        "created_at": "2026-11-21T04:00:00Z",
        "submitted_at": None,
        "allocated_at": None,
        "started_at": None,
        "ready_at": None,
        "ended_at": None,
        "expires_at": None,
        "expected_start_at": None,
        "url": None,
        "cancel_requested": False,
        "version": 1,
        "stages": [],
        "actions": [],
        **changes,
    }


def page(*jobs: dict[str, Any], next_cursor: str | None = None) -> dict[str, Any]:
    """Return one page of a list of jobs."""
    return {"items": list(jobs), "next_cursor": next_cursor, "total": len(jobs)}


class FakeApi:
    """Answers by method and path; the last answer laid out for one is given again and again."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._answers: dict[
            tuple[str, str], list[CannedAnswer | Callable[[Request], CannedAnswer]]
        ] = {}

    def on(
        self, method: str, path: str, *answers: CannedAnswer | Callable[[Request], CannedAnswer]
    ) -> None:
        """Lay out answers for ``/api/v1`` + path (or the bare path of ``/readyz``)."""
        self._answers[method, path] = list(answers)

    def sent(self, method: str, path: str) -> list[Request]:
        """Return the received requests with that method and path."""
        return [r for r in self.requests if (r.method, r.path) == (method, path)]

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer | type[Refused] | type[ConnectionLost]:
        """Record the request and find its answer."""
        parts = urlsplit(target)
        path = parts.path.removeprefix("/api/v1")
        lower = {name.lower(): value for name, value in headers.items()}
        is_json = lower.get("content-type") == "application/json"
        sent = json.loads(body) if body and is_json else body
        request = Request(method, path, parse_qs(parts.query), lower, sent)
        self.requests.append(request)
        laid_out = self._answers.get((method, path))
        if not laid_out:
            return problem(404, "not_found", f"There is no {path} that you may see.")
        given = laid_out.pop(0) if len(laid_out) > 1 else laid_out[0]
        if callable(given) and not isinstance(given, type):
            given = given(request)
        if isinstance(given, dict | list):
            return Answer(200, [json.dumps(given).encode()])
        return Answer(200, [given]) if isinstance(given, bytes) else given

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """Answer a request of a client without a socket."""
        given = self.answer(method, path, headers, body)
        if isinstance(given, Answer):
            return _Reply(given)
        raise ConnectionFailed("it broke", sent=given is ConnectionLost)


class _Reply:
    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in answer.headers.items()}
        self._answer = answer

    def chunks(self) -> Iterator[bytes]:
        yield from self._answer.chunks
        if self._answer.cut:
            raise ConnectionFailed("the response ended early", sent=True)

    def close(self) -> None:
        """Close nothing: no connection is open."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def serve(
    api: FakeApi, port: int = 0, certificate: tuple[Path, Path] | None = None
) -> Iterator[str]:
    """Serve ``api`` during the block, over TLS if there is a certificate with its key; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            given = api.answer(self.command, self.path, dict(self.headers.items()), body)
            self.close_connection = True
            if not isinstance(given, Answer):
                return
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for chunk in given.chunks:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                if not given.cut:
                    self.wfile.write(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                return

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - http.server's names

        def log_message(self, *args: object) -> None:
            """Suppress the log of requests, as tests read stderr."""

    server = _Server(("127.0.0.1", port), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        scheme = "http" if certificate is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def platform(limits_applied: str) -> dict[str, Any]:
    """Return the answer of ``/me`` on a platform that applies limits at that time."""
    return {"user": {"name": "root"}, "platform": {"limits_applied": limits_applied}}
