"""Concurrent tasks that start together end together."""

from __future__ import annotations

import asyncio

import pytest

from aitne.core.concurrent_coroutines import run_concurrently


class Slow:
    """Work that takes a moment to end when it is cancelled, as a connection does that is closed."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.ended = False

    async def run(self, turns: int = 5) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            for _ in range(turns):
                await asyncio.sleep(0)
            raise
        finally:
            self.ended = True


async def test_results_keep_order_of_calls() -> None:
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await run_concurrently(map(after, (3, 0, 2))) == [3, 0, 2]
    assert await run_concurrently([]) == []


async def test_the_first_failure_is_told_as_it_is_once_all_have_ended() -> None:
    slow = Slow()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        await run_concurrently([slow.run(), fail()])
    assert (slow.ended, slow.cancelled) == (True, 1)


async def test_cancelled_caller_waits_for_all_tasks() -> None:
    # One that ends at once must not let go of the other: that is what asyncio.gather does.
    quick, slow = Slow(), Slow()
    task = asyncio.create_task(run_concurrently([quick.run(turns=0), slow.run(turns=20)]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(each.ended, each.cancelled) for each in (quick, slow)] == [(True, 1), (True, 1)]
