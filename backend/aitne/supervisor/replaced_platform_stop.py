"""End of a running platform that another supervisor replaces. Standard library only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from aitne.supervisor.errors import PlatformStartError

ENDED_WITHIN_S = 30.0
LOCK_EVERY_S = 0.02


async def stop_replaced_platform(supervisor: Path, lock: Callable[[], bool]) -> None:
    """Stop the platform whose supervisor listens on ``supervisor`` (its jobs keep running), then
    acquire the platform lock and return.

    Args:
        supervisor: path of the socket.
        lock: tries to acquire the lock; returns whether it succeeded.

    Raises:
        PlatformStartError: the platform does not stop within ``ENDED_WITHIN_S`` seconds.
    """
    try:
        async with asyncio.timeout(ENDED_WITHIN_S):
            await _request_end(supervisor)
            while True:
                if lock():
                    return
                await asyncio.sleep(LOCK_EVERY_S)
    except TimeoutError:
        raise PlatformStartError(
            f"The platform that is to be replaced has not ended within {ENDED_WITHIN_S:.0f} s."
        ) from None


async def _request_end(supervisor: Path) -> None:
    try:
        reader, writer = await asyncio.open_unix_connection(supervisor)
    except OSError:
        return  # it has ended by itself
    try:
        writer.write(json.dumps({"verb": "down", "keep_jobs": True}).encode() + b"\n")
        while await reader.readline():
            pass
    except ConnectionError:
        pass  # it was killed; its lock is free then
    finally:
        writer.close()
