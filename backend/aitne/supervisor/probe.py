"""Minimal HTTP client that queries whether a child process on this machine is ready."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

WITHIN_S = 3.0


async def ask(url: str, *, method: str = "GET", token: str | None = None) -> int | None:
    """Return the HTTP status with which the server at ``url`` answers; None if it does not answer
    in time.
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
    try:
        async with asyncio.timeout(WITHIN_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(request)
                answer = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    words = answer.split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None
