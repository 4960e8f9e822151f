"""HTTP requests with credentials, repetition after failures, errors and pages.

A request is repeated if that is safe: reading always is, creating is because of its
Idempotency-Key, and any request is if the platform cannot have received it.
"""

from __future__ import annotations

import json
import os
import time

from aitne.client.http_transport import (
    CertificateRejected,
    ConnectionFailed,
    HttpTransport,
    percent_encode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from aitne.client.platform_discovery import Platform
    from aitne.client.transport import Reply, RequestTransport
    from aitne.core.errors import AitneError

    Query = Mapping[str, str | int | bool | Sequence[str] | None]

API = "/api/v1"
TIMEOUT_S = 30.0
RETRIED = frozenset({502, 503, 504})
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


def quote_segment(value: object) -> str:
    """Return a value percent-encoded as one segment of a URL path."""
    return percent_encode(str(value))


def make_idempotency_key() -> str:
    """Return a new random Idempotency-Key, which is sent with all attempts of one request."""
    return os.urandom(16).hex()


class ApiSession:
    """Sender of requests to one platform as one user."""

    def __init__(
        self,
        platform: Platform,
        *,
        transport: RequestTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.platform = platform
        self.sleep = sleep
        self.clock = clock
        self._transport = transport or make_transport(platform)

    def request_json(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        key: str | None = None,
        repeatable: bool | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Send a request below ``/api/v1`` and return the decoded JSON answer; None if it is empty.

        ``body`` is sent as JSON, or unchanged if it is bytes. ``key`` is the Idempotency-Key of a
        request that creates an object. ``repeatable`` states whether the request may safely be sent
        twice; None: only if it reads or has a key.

        Raises:
            AitneError: the platform rejected the request, or does not answer.
        """
        data = self.request_body(
            method,
            path,
            query=query,
            body=body,
            key=key,
            repeatable=repeatable,
            timeout_s=timeout_s,
        )[1]
        return json.loads(data) if data else None

    def request_body(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        key: str | None = None,
        repeatable: bool | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> tuple[Mapping[str, str], bytes]:
        """Send a request as ``request_json`` does, but return the headers and the body as bytes."""
        headers = {} if key is None else {"Idempotency-Key": key}
        if repeatable is None:
            repeatable = method == "GET" or key is not None
        patience = RequestBackoff(self)
        while True:
            try:
                reply = self._send_request(method, path, query, body, headers, timeout_s)
                try:
                    status, answer = reply.status, b"".join(reply.chunks())
                finally:
                    reply.close()
            except ConnectionFailed as failure:
                patience.handle_failure(failure, repeatable=repeatable)
                continue
            if status in RETRIED and repeatable and patience.pause():
                continue
            if status >= 400:
                raise self._make_error(status, reply.headers, answer)
            return reply.headers, answer

    def open_stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Reply:
        """Send a GET request and return the response; the caller reads its body in chunks. A failed
        request is not repeated.

        Raises:
            ConnectionFailed: the connection failed; the caller may try again.
            AitneError: the platform rejected the request.
        """
        reply = self._send_request("GET", path, query, None, headers or {}, timeout_s)
        if reply.status >= 400:
            try:
                body = b"".join(reply.chunks())
            finally:
                reply.close()
            if reply.status in RETRIED:
                raise ConnectionFailed(f"it answered {reply.status}", sent=True)
            raise self._make_error(reply.status, reply.headers, body)
        return reply

    def list_pages(self, path: str, query: Query, *, limit: int | None = None) -> Iterator[Any]:
        """Yield the items of a list, fetching page after page. ``limit`` is the maximum number of
        items; None: all."""
        cursor: str | None = None
        remaining = limit
        while remaining is None or remaining > 0:
            size = 500 if remaining is None else min(remaining, 500)
            page = self.request_json("GET", path, query={**query, "limit": size, "cursor": cursor})
            yield from page["items"][:size]
            remaining = None if remaining is None else remaining - len(page["items"])
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def _send_request(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: object,
        headers: Mapping[str, str],
        timeout_s: float = TIMEOUT_S,
    ) -> Reply:
        fields = {"Accept": "application/json", "User-Agent": "aitne-client", **headers}
        if self.platform.token is not None:
            fields.setdefault("Authorization", f"Bearer {self.platform.token}")
        data = None
        if isinstance(body, bytes):
            data = body
            fields["Content-Type"] = "application/octet-stream"
        elif body is not None:
            data = _encode_json(body)
            fields["Content-Type"] = "application/json"
        base = "" if path in ("/healthz", "/readyz") else API
        target = base + path + _encode_query(query)
        try:
            return self._transport.send(
                method, target, headers=fields, body=data, timeout_s=timeout_s
            )
        except ValueError as error:
            from aitne.core.errors import InvalidInput

            raise InvalidInput(
                f"The request to {self.platform.url} is invalid: {error}. Check the "
                "address and the token for characters that do not belong there."
            ) from error

    def _make_error(self, status: int, headers: Mapping[str, str], body: bytes) -> AitneError:
        from aitne.client.errors import make_error_from_problem

        return make_error_from_problem(status, headers, body)


def make_transport(platform: Platform) -> RequestTransport:
    """Return the transport for requests to a platform. Raises ``InvalidInput`` if its address or
    file of CA certificates is invalid."""
    try:
        return HttpTransport(platform.url, platform.ca_file)
    except ValueError as error:
        from aitne.core.errors import InvalidInput

        raise InvalidInput(f"{error}.") from error


def _encode_json(body: object) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except ValueError:
        from aitne.core.float_encoding import encode_floats

        return json.dumps(encode_floats(body), allow_nan=False).encode()


def _encode_query(query: Query | None) -> str:
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        if value is None or value is False:
            continue
        if value is True:
            pairs.append((name, "true"))
        elif isinstance(value, str | int):
            pairs.append((name, str(value)))
        else:
            pairs.extend((name, item) for item in value)
    return (
        "?" + "&".join(f"{percent_encode(name)}={percent_encode(value)}" for name, value in pairs)
        if pairs
        else ""
    )


class RequestBackoff:
    """Retry policy for requests to a platform that does not answer: a total time limit and
    increasing pauses.

    A supervised platform restarts its API within seconds, so requests are retried for some time
    after a broken connection. If the platform is known not to run, the error is raised immediately.
    """

    def __init__(self, session: ApiSession, seconds: float | None = None) -> None:
        self._session = session
        self._seconds = session.platform.patience_s if seconds is None else seconds
        self.reset()

    def reset(self) -> None:
        """Restart the time limit and the shortest pause, after the platform has answered."""
        self._pause_s = FIRST_PAUSE_S
        self._until: float | None = None

    def handle_failure(self, failure: ConnectionFailed, *, repeatable: bool) -> None:
        """Sleep before the next attempt after ``failure``, or raise an error if the request must
        not be repeated.

        ``repeatable`` states whether the request may safely be sent twice.

        Raises:
            NotRunning: no platform runs.
            CertificateInvalid: the platform's certificate is not accepted.
            Unreachable: the time limit has passed, or another attempt could repeat a change.
        """
        from aitne.client.errors import CertificateInvalid, NotRunning, Unreachable

        platform = self._session.platform
        if isinstance(failure, CertificateRejected):
            raise CertificateInvalid(
                f"The TLS certificate of {platform.url} is not accepted: {failure.reason}. "
                f"{failure.remedy}"
            ) from failure
        if not platform.is_expected_up():
            raise NotRunning(platform.how_to_start()) from failure
        if failure.sent and not repeatable:
            raise Unreachable(
                f"The connection to {platform.url} broke ({failure.reason}) after the request was "
                "sent: it may or may not have been carried out. Check before you repeat it."
            ) from failure
        if not self.pause():
            raise Unreachable(
                f"{platform.url} does not answer: {failure.reason}. {platform.what_to_check()}"
            ) from failure

    def pause(self) -> bool:
        """Sleep, longer with each call, and return True. If the time limit has passed, return False
        without sleeping.
        """
        now = self._session.clock()
        if self._until is None:
            self._until = now + self._seconds
        if now >= self._until:
            return False
        self._session.sleep(min(self._pause_s, self._until - now))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
        return True
