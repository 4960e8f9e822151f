"""One controller per data directory, and a quick succession.

The lease in the database decides who leads. On one machine a file lock says more: whoever holds it
knows that the holder before is dead, so its lease need not be waited for.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aitne.core.errors import SetupError

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Lock:
    """``holder`` names this process in the lease, ``previous`` the one before it, if any."""

    holder: str
    previous: str | None


@contextmanager
def hold_lock(path: Path) -> Iterator[Lock]:
    """Hold the file lock while the block runs.

    Raises:
        SetupError: another controller works on this data directory.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, path)
        previous = os.read(descriptor, 1_000).decode(errors="replace").strip() or None
        holder = f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield Lock(holder, previous)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Another controller holds {path}; end it first, or use another data directory."
                ) from None
            time.sleep(0.1)
        else:
            return
