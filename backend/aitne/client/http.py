"""One HTTP exchange over the standard library, and what may go wrong with it.

``Transport`` is the seam: tests and programs that embed the client pass their own.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from typing import Protocol
from urllib.parse import urlsplit

CHUNK = 1 << 16
SILENCE = "no answer in time"


class ConnectionFailed(OSError):
    """The exchange broke. ``sent`` is False when the platform cannot have seen the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class Reply(Protocol):
    """A response: the head is there, the body is read as it comes. Close it."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""

    def chunks(self) -> Iterator[bytes]:
        """The body, as it arrives. Raises ``ConnectionFailed`` when it breaks off."""
        ...

    def close(self) -> None:
        """Let go of the connection; chunks still to come are lost."""
        ...


class Transport(Protocol):
    """Sends one request and returns when the head of its response is there."""

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """``timeout_s`` bounds connecting and every single wait for bytes.

        Raises:
            ConnectionFailed: no complete exchange.
        """
        ...


class _HttpReply:
    def __init__(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.getheaders()
        }

    def chunks(self) -> Iterator[bytes]:
        left = self._response.length  # None: it says itself where it ends, or ends with the line
        while left is None or left > 0:
            try:
                chunk = self._response.read1(CHUNK if left is None else min(CHUNK, left))
            except (OSError, http.client.HTTPException) as error:
                raise ConnectionFailed(_reason(error), sent=True) from error
            if chunk:
                yield chunk
            elif left is None:
                return
            else:
                raise ConnectionFailed("the answer broke off", sent=True)
            left = None if left is None else left - len(chunk)

    def close(self) -> None:
        self._connection.close()
        self._response.close()


class HttpTransport:
    """One connection per request: nothing to keep, to share between threads or to find stale."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{base_url!r} is not an address: write http://host:port")
        self._https = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float,
    ) -> Reply:
        """See ``Transport``."""
        connection = self._connection(timeout_s)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise ConnectionFailed(_reason(error), sent=False) from error
        try:
            connection.request(
                method, self._prefix + path, body, {**headers, "Connection": "close"}
            )
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionFailed(_reason(error), sent=True) from error
        return _HttpReply(connection, response)

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout_s)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return SILENCE
    if isinstance(error, http.client.RemoteDisconnected):
        return "the connection was closed without an answer"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer broke off"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
