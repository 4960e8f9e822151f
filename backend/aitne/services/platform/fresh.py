"""Cache of one answer for all requests within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TtlCache(Generic[T]):
    """Value that is read again once it is older than ``fresh_s``.

    Concurrent requests share the read.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], fresh_s: float) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._looking = asyncio.Lock()
        self._last: tuple[T, float] | None = None
        """Last answer, and the time until which it is served."""

    async def get(self) -> T:
        """Return the cached answer, or read a new one.

        Raises what reading raises; then the next request reads again.
        """
        async with self._looking:
            loop = asyncio.get_running_loop()
            if self._last is None or loop.time() >= self._last[1]:
                answer = await self._read()
                self._last = answer, loop.time() + self._fresh_s
            return self._last[0]
