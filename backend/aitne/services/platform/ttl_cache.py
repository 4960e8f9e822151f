"""Cache of one value that serves all requests for some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TtlCache(Generic[T]):
    """Cache of one value, which ``get`` reads again once it is older than ``fresh_s`` seconds.

    Concurrent callers share one read.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], fresh_s: float) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._looking = asyncio.Lock()
        self._last: tuple[T, float] | None = None
        """Cached value and the time until which it is returned (monotonic clock); None before the
        first read.
        """

    async def get(self) -> T:
        """Return the cached value, or read a new one if it is too old.

        Raises the errors of ``read``; then nothing is cached and the next call reads again.
        """
        async with self._looking:
            loop = asyncio.get_running_loop()
            if self._last is None or loop.time() >= self._last[1]:
                answer = await self._read()
                self._last = answer, loop.time() + self._fresh_s
            return self._last[0]
