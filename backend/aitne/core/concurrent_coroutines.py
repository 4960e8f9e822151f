"""Execution of concurrent coroutines, none of which continues after an error or a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


async def run_concurrently(coroutines: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all coroutines concurrently; return their results in order.

    If one fails, or the caller is cancelled, the others are cancelled, and this function waits
    until they have ended. With ``asyncio.gather`` they would continue and might use a store that is
    closed.

    Raises:
        BaseException: the first exception that a coroutine raised, not wrapped in a group.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
