"""Concurrent coroutines, of which none outlives the wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def together(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all at once; return what each returned, in order.

    When one fails, or the caller is cancelled, the others are cancelled and have ended before this
    returns. With ``asyncio.gather`` they would continue with a store that is closed by then.

    Raises:
        BaseException: the first one that was raised, not wrapped in a group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
