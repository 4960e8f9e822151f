"""Heartbeat of a process that has no port for the supervisor's probes."""

from __future__ import annotations

import asyncio
import os

from aitne.local_system.hung_restart_records import HEARTBEAT_VARIABLE

EVERY_S = 1.0


async def send_heartbeats() -> None:
    """Write a byte to the supervisor's pipe every second, from the event loop, until cancelled.
    Returns at once if the process has no supervisor.
    """
    descriptor = os.environ.pop(HEARTBEAT_VARIABLE, None)
    if descriptor is None:
        return
    while True:
        try:
            os.write(int(descriptor), b".")
        except BlockingIOError:
            pass  # the pipe is full after the supervisor was stopped for long
        except BrokenPipeError:
            return  # the supervisor is dead, and the kernel ends this process too
        await asyncio.sleep(EVERY_S)
