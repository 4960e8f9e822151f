"""Minimal HTTP client for status checks of services, which imports no large modules."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

PROBE_SOCKET = "api.sock"
"""Name of the UNIX socket in the folder ``run`` on which the API answers the supervisor's probes."""


async def request_http_status(
    url: str,
    *,
    within_s: float,
    method: str = "GET",
    token: str | None = None,
    socket: Path | None = None,
) -> int:
    """Return the HTTP status of the response from ``url``.

    Args:
        within_s: timeout in seconds.
        socket: UNIX socket to connect to; None: the host and port of ``url``.
        token: token for the header Authorization; None: no token is sent.

    Raises:
        OSError: the server cannot be reached.
        TimeoutError: the server does not answer in time.
        ValueError: the response is not valid HTTP.
    """
    parts = urlsplit(url)
    lines = [
        f"{method} {parts.path or '/'} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: close",
        "Content-Length: 0",
    ]
    if token is not None:
        lines.append(f"Authorization: token {token}")
    request = "\r\n".join([*lines, "", ""]).encode()
    async with asyncio.timeout(within_s):
        if socket is not None:
            reader, writer = await asyncio.open_unix_connection(socket)
        else:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        try:
            writer.write(request)
            answer = await reader.readline()
        finally:
            writer.close()
    match answer.split():
        case [protocol, status, *_] if protocol.startswith(b"HTTP/") and status.isdigit():
            return int(status)
    raise ValueError(f"The service at {url} does not speak HTTP.")


async def poll_http_status(
    url: str,
    *,
    within_s: float,
    method: str = "GET",
    token: str | None = None,
    socket: Path | None = None,
) -> int | None:
    """Return the HTTP status as ``request_http_status``; None if the server does not answer."""
    try:
        return await request_http_status(
            url, within_s=within_s, method=method, token=token, socket=socket
        )
    except (OSError, TimeoutError, ValueError):
        return None
