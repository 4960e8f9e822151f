"""Calls of blocking functions from an event loop, each in a new thread.

These are daemon threads, not a pool: streams may wait for a long time, and must neither use up a
pool's threads nor keep a program from ending.
"""

from __future__ import annotations

import asyncio
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

_END = object()


async def call_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``function`` in a thread and return its result or raise its error. If the caller is
    cancelled while it waits, the call continues and its result is discarded."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def set_in_loop(set_: Callable[[], None]) -> None:
        def set_unless_done() -> None:
            if not future.done():
                set_()

        if not loop.is_closed():
            loop.call_soon_threadsafe(set_unless_done)

    def run() -> None:
        try:
            result = function(*args, **kwargs)
        except StopIteration as error:  # a future cannot hold it
            reason = RuntimeError("a call ended an iteration that it had not begun")
            reason.__cause__ = error
            set_in_loop(lambda: future.set_exception(reason))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            caught = error
            set_in_loop(lambda: future.set_exception(caught))
        else:
            set_in_loop(lambda: future.set_result(result))

    threading.Thread(target=run, name="aitne-client", daemon=True).start()
    return await future


async def iterate_in_thread(
    make: Callable[P, Iterator[T]], *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[T]:
    """Iterate asynchronously over the iterator that ``make(*args, **kwargs)`` returns. Each item is
    fetched in a thread when it is requested.
    """
    items = await call_in_thread(make, *args, **kwargs)
    try:
        while (item := await call_in_thread(next, items, _END)) is not _END:
            yield item  # type: ignore[misc]
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            await call_in_thread(close)
