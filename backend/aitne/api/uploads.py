"""Bodies of requests that are too large to be held in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from aitne.api.dependencies import Writer
from aitne.core.errors import RateLimited

MAX_AT_ONCE = 2
"""Maximum number of uploads of one user at the same time."""
WITHIN_S = 3_600.0
"""Seconds after which an upload is aborted with status 408."""
_RETRY_S = 10.0


class OpenUploads:
    """Uploads of one application that are being received."""

    def __init__(self) -> None:
        self._by_user: Counter[str] = Counter()

    @contextmanager
    def admit(self, user: str) -> Iterator[None]:
        """Count an upload of ``user`` within the context. Raises ``RateLimited`` if too many are
        being received."""
        if self._by_user[user] >= MAX_AT_ONCE:
            raise RateLimited(
                f"{MAX_AT_ONCE} of your uploads are being received already. Wait for their end.",
                _RETRY_S,
            )
        self._by_user[user] += 1
        try:
            yield
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]


async def get_upload(request: Request, actor: Writer) -> AsyncIterator[AsyncIterator[bytes]]:
    """Return the chunks of the body of an authenticated request as they arrive, which counts as an
    upload until the request ends.

    Raises:
        RateLimited: too many uploads of the user are being received.
    """
    uploads: OpenUploads = request.app.state.uploads
    with uploads.admit(actor.name):
        yield _stream_chunks(request, asyncio.get_running_loop().time() + WITHIN_S)


Upload = Annotated[AsyncIterator[bytes], Depends(get_upload)]


async def _stream_chunks(request: Request, deadline: float) -> AsyncIterator[bytes]:
    """Yield the chunks of the request's body. Raises ``HTTPException``: 408 after ``deadline``, 400
    if the client disconnects."""
    chunks = request.stream()
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise HTTPException(
                408,
                f"The upload took longer than {WITHIN_S / 3_600:g} hour; nothing was stored. Try again.",
            ) from None
        except ClientDisconnect:
            raise HTTPException(400, "The upload was interrupted; nothing was stored.") from None
        if chunk is None:
            return
        yield chunk
