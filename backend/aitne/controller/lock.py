"""Lock for one controller per data directory, and for a quick succession.

The lease in the database decides which controller leads. On one machine a file lock tells more: its
holder knows that the previous holder is dead, so that lease need not expire first.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aitne.core.errors import SetupError

PATIENCE_S = 5.0


def new_holder() -> str:
    """Return a name for this process in the lease, unique over time."""
    return f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"


@contextmanager
def hold_lock(path: Path, holder: str, *, alone: bool) -> Iterator[str | None]:
    """Hold the file lock while the block runs; yield the previous holder, which is dead.

    Without ``alone`` the block runs also while another process has the lock; then no holder is
    known to be dead.

    Raises:
        SetupError: another controller works on this data directory, and ``alone`` is set.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(descriptor, path, alone=alone):
            yield None
            return
        previous = os.read(descriptor, 1_000).decode(errors="replace").strip() or None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        yield previous
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, *, alone: bool) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not alone:
                return False
            if time.monotonic() > deadline:
                raise SetupError(
                    f"Another controller holds {path}; end it first, or use another data directory."
                ) from None
            time.sleep(0.1)
        else:
            return True
