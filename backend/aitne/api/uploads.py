"""Bodies of requests that are too large to be held in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

SILENCE_S = 60.0
"""Seconds without data after which an upload is aborted with status 408."""


async def uploaded(request: Request) -> AsyncIterator[bytes]:
    """Yield the chunks of the request's body as they arrive.

    Raises ``HTTPException``: 408 after ``SILENCE_S`` without data, 400 if the client disconnects.
    """
    chunks = request.stream()
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise HTTPException(
                408, f"No data arrived for {SILENCE_S:g} seconds; nothing was stored. Try again."
            ) from None
        except ClientDisconnect:
            raise HTTPException(400, "The upload was interrupted; nothing was stored.") from None
        if chunk is None:
            return
        yield chunk
