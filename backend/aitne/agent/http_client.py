"""Minimal HTTP client with one request on each connection.

``http.client`` would take more time and memory to import than the rest of the agent. Requests are
HTTP/1.0, so a response is never chunked and ends with the connection.
"""

from __future__ import annotations

import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # TLS costs as much memory as all the rest of the agent
    import ssl
    from collections.abc import Callable, Iterator

_MOST = 4 << 20

_authorities: list[str] = []
"""CA certificates (PEM) that are trusted in addition to the node's own."""
_contexts: list[ssl.SSLContext] = []
"""Default TLS context, which the first request creates."""


class InvalidResponseError(Exception):
    """Error: the server's response is not HTTP."""


def trust_authority(authority: str) -> None:
    """Trust the CA certificate ``authority`` (PEM) in all requests that have no TLS context of
    their own."""
    _authorities.append(authority)
    _contexts.clear()


def make_session_context(authority: str, certificate: str, key: str) -> ssl.SSLContext:
    """Return a TLS context that trusts only the CA certificate ``authority`` (PEM), and
    authenticates with the files ``certificate`` and ``key``.

    Raises:
        OSError: a file is missing or invalid.
    """
    import ssl

    context = ssl.create_default_context(cadata=authority)
    context.load_cert_chain(certificate, key)
    return context


def _get_tls_context() -> ssl.SSLContext:
    if not _contexts:
        import ssl

        context = ssl.create_default_context()
        for authority in _authorities:
            context.load_verify_locations(cadata=authority)
        _contexts.append(context)
    return _contexts[0]


def split_url(url: str) -> tuple[bool, str, int, str]:
    """Split a URL such as ``http://host:1/path``. Return whether it is https, the host, the port
    (default 80 or 443) and the path (default ``/``)."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    secure = scheme == "https"
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    number = int(port) if port else 443 if secure else 80
    return secure, host.strip("[]"), number, slash + path or "/"


def download(url: str, *, token: str, silence_s: float) -> tuple[int, Iterator[bytes]]:
    """Send a GET request; return the status, and an iterator of the body's pieces as they arrive.

    The body ends when the connection is closed, also if it was interrupted, so the caller must
    check the length of the body.

    Args:
        url: URL of the request.
        token: sent as ``Authorization: Bearer``.
        silence_s: maximum number of seconds without data.

    Raises:
        OSError, InvalidResponseError: as ``request``; the iterator raises them too.
    """
    pieces = _stream_response("GET", url, None, token, None, lambda: silence_s)
    head = b""
    for piece in pieces:
        head += piece
        if b"\r\n\r\n" in head or len(head) > _MOST:
            break
    status, body = _parse_response(head)

    def rest() -> Iterator[bytes]:
        yield body
        yield from pieces

    return status, rest()


def request(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    token: str = "",
    timeout_s: float,
    context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Send a request and return status and body.

    ``token`` is sent as ``Authorization: Bearer``. ``context`` is the TLS context for https; None:
    one that trusts the node's CAs and those of ``trust_authority``.

    Raises:
        OSError: the server cannot be reached, or does not answer within ``timeout_s`` seconds.
        InvalidResponseError: the response is not HTTP.
    """
    deadline = time.monotonic() + timeout_s
    answer = b""
    for piece in _stream_response(
        method, url, body, token, context, lambda: _compute_remaining_s(deadline)
    ):
        answer += piece
        if len(answer) >= _MOST:
            break
    return _parse_response(answer)


def _stream_response(
    method: str,
    url: str,
    body: bytes | None,
    token: str,
    context: ssl.SSLContext | None,
    remaining_s: Callable[[], float],
) -> Iterator[bytes]:
    """Send a request and yield pieces of the response, including its headers, as they arrive.

    ``remaining_s`` is called before each wait and returns the maximum number of seconds to wait; it
    raises ``TimeoutError`` after the deadline. The other arguments are those of ``request``.
    """
    secure, host, port, path = split_url(url)
    head = [f"{method} {path} HTTP/1.0", f"Host: {host}:{port}", "User-Agent: aitne-agent"]
    if token:
        head.append(f"Authorization: Bearer {token}")
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    message = "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + (body or b"")
    connection = socket.create_connection((host, port), timeout=remaining_s())
    try:
        if secure:
            connection = (context or _get_tls_context()).wrap_socket(
                connection, server_hostname=host
            )
        connection.settimeout(remaining_s())
        connection.sendall(message)
        while True:
            connection.settimeout(remaining_s())
            piece = connection.recv(65536)
            if not piece:
                return
            yield piece
    finally:
        connection.close()


def _compute_remaining_s(deadline: float) -> float:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError("no answer in time")
    return remaining_s


def _parse_response(answer: bytes) -> tuple[int, bytes]:
    head, blank, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(None, 2)
    if not blank or len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise InvalidResponseError(repr(answer[:80]))
    return int(words[1]), body
